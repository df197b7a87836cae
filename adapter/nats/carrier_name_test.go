package nats

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTheInletsOfStagesHaveNamesOfTheirOwn(t *testing.T) {
	assert.Equal(t, "scans_ocr", lineName("scans", "ocr"))
	assert.Regexp(t, "^scans_DEAD_", lineName("scans", "DEAD"), "scans_DEAD is for the dead letters of an inlet scans")
	name := rapid.StringMatching(`DEAD|BACK|[a-z_ \-é/.]{1,70}|[ab_]{1,3}`)
	rapid.Check(t, func(t *rapid.T) {
		seen := map[string][2]string{}
		for range rapid.IntRange(2, 20).Draw(t, "stages") {
			of := [2]string{name.Draw(t, "pipeline"), name.Draw(t, "stage")}
			line := lineName(of[0], of[1])
			require.Regexp(t, validName, line)
			require.False(t, isReserved(line))
			if other, there := seen[line]; there {
				require.Equal(t, other, of)
			}
			seen[line] = of
		}
	})
}

func TestAStagesOptionsAreAllOfThoseThatWereGiven(t *testing.T) {
	given := Options[int]{Codec: JSON[int]{Type: "n"}}
	v := reflect.ValueOf(&given).Elem()
	for field, value := range v.Fields() {
		if field.IsExported() { // the others are set by the defaults
			setAny(value)
		}
	}
	as := reflect.ValueOf(erase(given))
	require.Equal(t, v.NumField(), as.NumField())
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.IsExported() && field.Name != "Codec" {
			assert.False(t, as.Field(i).IsZero(), field.Name)
		}
	}
	p, err := erase(given).Codec.Encode(5)
	require.NoError(t, err)
	assert.Equal(t, Payload{"n", 1, []byte("5")}, p)
	_, err = erase(given).Codec.Encode("five")
	require.Error(t, err)
}

// setAny sets a field to something that is not zero.
func setAny(v reflect.Value) {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), nil))
	case reflect.Struct:
		setAny(v.Field(0))
	default:
	}
}
