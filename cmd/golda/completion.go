package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// scripts ask golda complete for the words that may follow. Where there is none
// they complete names of files, as for golda open.
var scripts = map[string]string{
	"bash": `_golda() {
	COMPREPLY=($(compgen -W "$(golda complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}")" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _golda golda
`,
	"zsh": `#compdef golda
_golda() {
	local -a all
	all=(${(f)"$(golda complete -- ${words[2,CURRENT-1]})"})
	compadd -- $all || _files
}
compdef _golda golda
`,
	"fish": `complete -c golda -a '(golda complete -- (commandline -opc)[2..])'
`,
}

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints the script of a shell.
func (c *completionCommand) Run(s *session) error {
	_, err := fmt.Fprint(s.out, scripts[c.Shell])
	return err
}

type completeCommand struct {
	Words []string `arg:"" optional:""`
}

// Run prints the words that may follow others, one a line.
func (c *completeCommand) Run(s *session, root *kong.Kong) error {
	for _, word := range following(root.Model.Node, c.Words) {
		if _, err := fmt.Fprintln(s.out, word); err != nil {
			return err
		}
	}
	return nil
}

// following returns the commands, the words of an enumeration and the options
// that may follow words.
func following(n *kong.Node, words []string) (all []string) {
	args := 0
	for _, word := range words {
		next := child(n, word)
		switch {
		case next != nil:
			n, args = next, 0
		case !strings.HasPrefix(word, "-"):
			args++
		}
	}
	for _, c := range n.Children {
		if !c.Hidden {
			all = append(all, c.Name)
		}
	}
	if args < len(n.Positional) && n.Positional[args].Enum != "" {
		all = append(all, n.Positional[args].EnumSlice()...)
	}
	for _, group := range n.AllFlags(true) {
		for _, flag := range group {
			all = append(all, "--"+flag.Name)
		}
	}
	return all
}

// child returns the command of a name below another, or nil.
func child(n *kong.Node, name string) *kong.Node {
	for _, c := range n.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}
