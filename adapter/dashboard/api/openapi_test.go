package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

var update = flag.Bool("update", false, "write the schemas into openapi.yaml")

// types are the types of the API that have a schema.
var types = []any{
	api.Root{}, api.Snapshot{}, api.Stage{}, api.Queue{}, api.Workers{}, api.Counts{}, api.Durations{}, api.Bucket{}, api.Edge{}, api.Pool{},
	api.Feed{}, api.Graph{}, api.Node{}, api.Flow{}, api.Source{}, api.Journal{}, api.Change{}, api.Letters{}, api.Letter{}, api.Failures{},
	api.Failure{}, api.Work{}, api.StageWork{}, api.Busy{}, api.Tree{}, api.Intensity{}, api.Verdicts{}, api.Verdict{}, api.History{},
	api.Recording{}, api.Base{}, api.Delta{}, api.Count{}, api.Seen{}, api.Watched{}, api.Fleet{}, api.Process{}, api.Part{}, api.Inlet{}, api.Action{}, api.Done{}, api.Problem{},
}

const marker = "  schemas:\n"

func TestTheSchemasAreTheTypes(t *testing.T) {
	var schemas strings.Builder
	for _, v := range types {
		writeSchema(&schemas, reflect.TypeOf(v))
	}
	text, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	head, have, ok := strings.Cut(string(text), marker)
	require.True(t, ok, "openapi.yaml has no schemas")
	if *update {
		require.NoError(t, os.WriteFile("openapi.yaml", []byte(head+marker+schemas.String()), 0o600))
		return
	}
	require.Equal(t, schemas.String(), have, "run the command above the schemas in openapi.yaml")
}

func writeSchema(out *strings.Builder, of reflect.Type) {
	fmt.Fprintf(out, "    %s:\n", of.Name())
	if of == reflect.TypeFor[api.Bucket]() {
		out.WriteString("      {type: array, items: {type: integer}, minItems: 2, maxItems: 2}\n")
		return
	}
	out.WriteString("      type: object\n      properties:\n")
	var required []string
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "" {
			required = append(required, name)
		}
		fmt.Fprintf(out, "        %s: %s\n", name, schema(f.Type))
	}
	fmt.Fprintf(out, "      required: [%s]\n", strings.Join(required, ", "))
}

// schema returns the schema of a field.
func schema(of reflect.Type) string {
	switch {
	case of == reflect.TypeFor[time.Time]():
		return "{type: string, format: date-time}"
	case of == reflect.TypeFor[json.RawMessage]():
		return "{type: object}"
	case of.Kind() == reflect.Struct:
		return fmt.Sprintf(`{$ref: "#/components/schemas/%s"}`, of.Name())
	}
	switch of.Kind() {
	case reflect.Pointer:
		return fmt.Sprintf(`{oneOf: [%s, {type: "null"}]}`, schema(of.Elem()))
	case reflect.Slice:
		return fmt.Sprintf("{type: array, items: %s}", schema(of.Elem()))
	case reflect.Map:
		return fmt.Sprintf("{type: object, additionalProperties: %s}", schema(of.Elem()))
	case reflect.String:
		return "{type: string}"
	case reflect.Bool:
		return "{type: boolean}"
	case reflect.Float64:
		return "{type: number}"
	case reflect.Interface:
		return "{}"
	default:
		return "{type: integer}"
	}
}

// The names are the contract with scripts and pages.
func TestNamesAreInCamelCase(t *testing.T) {
	for _, v := range types {
		for f := range reflect.TypeOf(v).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Tag == "" && reflect.TypeOf(v) == reflect.TypeFor[api.Bucket]() {
				continue
			}
			require.Regexp(t, "^[a-z][a-zA-Z0-9]*$", name, "%T.%s", v, f.Name)
		}
	}
}
