package gclplugin_test

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/vet"
	_ "github.com/golda-dev/golda/vet/gclplugin"
)

func TestGolangciLintFindsThePlugin(t *testing.T) {
	make, err := register.GetPlugin("golda")
	require.NoError(t, err)
	plugin, err := make(nil)
	require.NoError(t, err)
	analyzers, err := plugin.BuildAnalyzers()
	require.NoError(t, err)
	require.Equal(t, vet.Analyzers, analyzers)
	require.Equal(t, register.LoadModeTypesInfo, plugin.GetLoadMode())
}
