// Command release prepares a release of all modules of this repository.
//
//	go run -C internal/release . v0.1.0
//
// It changes neither the checkout nor a branch, and publishes nothing. In a
// temporary worktree it makes a commit in which each published module requires
// its siblings at the version, without the replacements by which they find each
// other in a checkout: the go command refuses to install a program of a module
// that has some. The commit has a tag for each module (v0.1.0,
// adapter/nats/v0.1.0, …). The last lines of the output say how to push them.
//
// Before it sets the tags, it checks:
//
//   - the version is one, is later than the latest tag, and has no tag yet;
//   - the checkout has no change that is not committed;
//   - CHANGELOG.md has a section of the version, which becomes the release notes;
//   - the modules can be used as they will be published: programs are installed,
//     and a program that imports packages of each module is built, from a
//     directory in the form of a module proxy;
//   - a patch release has no incompatible change (apidiff against the latest tag);
//   - each module that is linked into a program has a licence that permits use in
//     any program (from the bill of materials of cyclonedx-gomod);
//   - no published vulnerability is reachable (govulncheck).
//
// The directory of -o, out/release/VERSION by default, has the notes, the API
// changes, a bill of materials of each module in the form of CycloneDX, and the
// module proxy.
package main
