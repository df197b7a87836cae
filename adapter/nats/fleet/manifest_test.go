package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// object is a Kubernetes object, or a part of one.
type object = map[string]any

const manifests = "../../../docs/scaling"

// readYAML returns the documents of a file.
func readYAML(t *testing.T, file string) (all []object) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, file)
		all = append(all, o)
	}
}

// manifest returns the only document of a manifest.
func manifest(t *testing.T, name string) object {
	t.Helper()
	all := readYAML(t, filepath.Join(manifests, name))
	require.Len(t, all, 1)
	return all[0]
}

// dig returns what is at a path of an object.
func dig(t *testing.T, o any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := o.(object)
			require.True(t, ok, "%v: %q of %T", path, p, o)
			require.Contains(t, m, p, "%v", path)
			o = m[p]
		case int:
			l, ok := o.([]any)
			require.True(t, ok && p < len(l), "%v: %d of %v", path, p, o)
			o = l[p]
		}
	}
	return o
}

func digText(t *testing.T, o any, path ...any) string {
	t.Helper()
	text, ok := dig(t, o, path...).(string)
	require.True(t, ok, "%v is no string", path)
	return text
}

// conforms returns what of a value does not conform to an OpenAPI schema, as definitions of Kubernetes have it: strictly, so a field that
// is not there is a fault.
func conforms(v any, schema object, at string) (faults []string) {
	if schema["x-kubernetes-preserve-unknown-fields"] == true {
		return nil
	}
	wrong := func() []string { return []string{fmt.Sprintf("%s: %v (%T) is no %v", at, v, v, schema["type"])} }
	switch schema["type"] {
	case "object":
		o, ok := v.(object)
		if !ok {
			return wrong()
		}
		fields, _ := schema["properties"].(object)
		further, open := schema["additionalProperties"].(object)
		for name, value := range o {
			switch sub, known := fields[name].(object); {
			case known:
				faults = append(faults, conforms(value, sub, at+"."+name)...)
			case open:
				faults = append(faults, conforms(value, further, at+"."+name)...)
			case len(fields) > 0:
				faults = append(faults, at+"."+name+": there is no such field")
			}
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := o[name.(string)]; !ok {
				faults = append(faults, fmt.Sprintf("%s.%v is missing", at, name))
			}
		}
	case "array":
		l, ok := v.([]any)
		if !ok {
			return wrong()
		}
		for i, e := range l {
			faults = append(faults, conforms(e, schema["items"].(object), fmt.Sprintf("%s[%d]", at, i))...)
		}
	case "string":
		if _, ok := v.(string); !ok {
			return wrong()
		}
	case "integer":
		if _, ok := v.(int); !ok {
			return wrong()
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return wrong()
		}
	}
	return faults
}

// schemaOf makes a schema of an object in which each field has a value. A map of strings has one key that says so, and an any, which is an
// integer or a string, is not checked.
func schemaOf(v any, name string) object {
	switch v := v.(type) {
	case object:
		fields := object{}
		for field, value := range v {
			if field == name+"Key" {
				return object{"type": "object", "additionalProperties": schemaOf(value, field)}
			}
			fields[field] = schemaOf(value, field)
		}
		return object{"type": "object", "properties": fields}
	case []any:
		return object{"type": "array", "items": schemaOf(v[0], name)}
	case string:
		return object{"type": "string"}
	case bool:
		return object{"type": "boolean"}
	case int:
		return object{"type": "integer"}
	default:
		return object{}
	}
}

// schemas returns the schemas of what the manifests have, by kind.
func schemas(t *testing.T) map[string]object {
	t.Helper()
	crd := readYAML(t, "testdata/kubernetes/keda.sh_scaledobjects.yaml")[0]
	all := map[string]object{"ScaledObject": dig(t, crd, "spec", "versions", 0, "schema", "openAPIV3Schema").(object)}
	for _, file := range []string{"apps.v1.Deployment", "core.v1.Service", "autoscaling.v2.HorizontalPodAutoscaler"} {
		full := readYAML(t, "testdata/kubernetes/"+file+".yaml")[0]
		all[full["kind"].(string)] = schemaOf(full, "")
	}
	return all
}

func TestTheManifestsHaveOnlyFieldsThatThereAre(t *testing.T) {
	known := schemas(t)
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	require.NoError(t, err)
	require.Len(t, files, 6)
	for _, file := range files {
		for _, o := range readYAML(t, file) {
			if filepath.Base(file) == "prometheus-adapter.yaml" {
				continue // see its own test
			}
			kind := digText(t, o, "kind")
			require.Contains(t, known, kind)
			require.Empty(t, conforms(o, known[kind], kind), file)
		}
	}
}

// The check would find what is wrong.
func TestAManifestWithAFaultIsFound(t *testing.T) {
	known := schemas(t)
	for fault, spoil := range map[string]func(keda, hpa, deployment object){
		"ScaledObject.spec.pollIntervall: there is no such field":                             func(k, _, _ object) { dig(t, k, "spec").(object)["pollIntervall"] = 1 },
		"ScaledObject.spec.minReplicaCount: one (string) is no integer":                       func(k, _, _ object) { dig(t, k, "spec").(object)["minReplicaCount"] = "one" },
		"ScaledObject.spec.triggers is missing":                                               func(k, _, _ object) { delete(dig(t, k, "spec").(object), "triggers") },
		"HorizontalPodAutoscaler.spec.metrics[0].external.target.value: 1 (int) is no string": func(_, h, _ object) { dig(t, h, "spec", "metrics", 0, "external", "target").(object)["value"] = 1 },
		"Deployment.spec.template.spec.container: there is no such field":                     func(_, _, d object) { dig(t, d, "spec", "template", "spec").(object)["container"] = nil },
	} {
		keda, hpa := manifest(t, "keda-metrics-api.yaml"), manifest(t, "hpa.yaml")
		deployment := readYAML(t, filepath.Join(manifests, "deployment.yaml"))[0]
		spoil(keda, hpa, deployment)
		var found []string
		for _, o := range []object{keda, hpa, deployment} {
			found = append(found, conforms(o, known[o["kind"].(string)], o["kind"].(string))...)
		}
		require.Equal(t, []string{fault}, found)
	}
}

// live is a fleet that runs, with its exporter.
type live struct {
	exporter *Exporter
	inlet    Inlet
	web      *httptest.Server
	server   *server.Server
	metrics  *prometheus.Registry
}

// running runs a pipeline shop with an inlet orders, of which some messages are not done.
func running(t *testing.T) live {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, HTTPHost: "127.0.0.1", HTTPPort: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	go s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	conn, err := nats.Connect(t.Context(), s.ClientURL())
	require.NoError(t, err)
	orders, err := nats.NewInlet(t.Context(), conn, "orders", nats.Options[int]{MaxInFlight: 8})
	require.NoError(t, err)
	open := make(chan struct{})
	book := stage.Sink("book", func(_ context.Context, n int) error {
		if n >= 10 {
			<-open
		}
		return nil
	}, stage.Workers(2, 2))
	p, err := pipeline.New("shop", pipeline.Feed("orders", book, orders.Feed), pipeline.Grace(time.Minute), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	f, err := Join(t.Context(), conn, p, Options{Name: "one", Every: 50 * time.Millisecond, Wait: 300 * time.Millisecond})
	require.NoError(t, err)
	e := NewExporter(f)
	registry := prometheus.NewRegistry()
	registry.MustRegister(e)
	mux := http.NewServeMux()
	mux.Handle("GET /scaling", e)
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		web.Close()
		close(open)
		require.NoError(t, p.Stop(context.Background()))
		require.NoError(t, f.Leave(context.Background()))
		require.NoError(t, conn.Close(context.Background()))
	})
	for n := range 30 {
		require.NoError(t, orders.Publish(t.Context(), strconv.Itoa(n), n))
	}
	var of Snapshot
	require.Eventually(t, func() bool { // two workers are busy with what does not end, and want others
		of, err = f.Snapshot(t.Context())
		return err == nil && len(of.Inlets) == 1 && of.Inlets[0].Pending == 20 && of.Processes[0].State == Alive && of.Inlets[0].WantedProcesses > 1
	}, time.Minute, 10*time.Millisecond)
	e.hold(of)
	return live{e, of.Inlets[0], web, s, registry}
}

// hold has the exporter export a snapshot for as long as the test lasts: its numbers change with the time.
func (e *Exporter) hold(s Snapshot) {
	e.turn <- struct{}{}
	e.last, e.err, e.at = s, nil, time.Now().Add(time.Hour)
	<-e.turn
}

// replicas is what an autoscaler makes of a metric with a target for each replica.
func replicas(t *testing.T, value float64, target string) int {
	t.Helper()
	per, err := strconv.ParseFloat(target, 64)
	require.NoError(t, err)
	return int(math.Ceil(value / per))
}

// metadata returns the metadata of the only trigger of a ScaledObject, which must have the keys that the scaler of this type needs, and no others.
func metadata(t *testing.T, o object, kind string, required, optional []string) object {
	t.Helper()
	require.Len(t, dig(t, o, "spec", "triggers"), 1)
	require.Equal(t, kind, dig(t, o, "spec", "triggers", 0, "type"))
	of := dig(t, o, "spec", "triggers", 0, "metadata").(object)
	for _, key := range required {
		require.Contains(t, of, key)
	}
	for key := range of {
		require.Contains(t, append(required, optional...), key)
	}
	require.Equal(t, "shop", dig(t, o, "spec", "scaleTargetRef", "name"))
	return of
}

// The keys are those of pkg/scalers/metrics_api_scaler.go of KEDA.
func TestTheManifestForTheMetricsAPIFindsItsNumber(t *testing.T) {
	l := running(t)
	of := metadata(t, manifest(t, "keda-metrics-api.yaml"), "metrics-api", []string{"url", "valueLocation", "targetValue"}, []string{"format", "activationTargetValue"})
	at, err := url.Parse(digText(t, of, "url"))
	require.NoError(t, err)
	objects := readYAML(t, filepath.Join(manifests, "deployment.yaml"))
	require.Equal(t, digText(t, objects[1], "metadata", "name")+".default.svc", at.Hostname())
	require.Equal(t, at.Port(), fmt.Sprint(dig(t, objects[1], "spec", "ports", 0, "port")))
	require.Equal(t, "shop", digText(t, objects[0], "metadata", "name"))
	require.Equal(t, dig(t, objects[1], "spec", "ports", 0, "targetPort"), dig(t, objects[0], "spec", "template", "spec", "containers", 0, "ports", 0, "name"))
	require.Equal(t, dig(t, objects[1], "spec", "selector"), dig(t, objects[0], "spec", "template", "metadata", "labels"))

	answer, err := http.Get(l.web.URL + at.Path)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	var body any
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
	var path []any
	for part := range strings.SplitSeq(digText(t, of, "valueLocation"), ".") {
		path = append(path, part)
	}
	value := dig(t, body, path...).(float64)
	require.Equal(t, l.inlet.WantedProcesses, replicas(t, value, digText(t, of, "targetValue")))
	require.EqualValues(t, 20, dig(t, body, "inlets", "orders", "pending"))
	require.EqualValues(t, 1, dig(t, body, "processes", "alive"))
	require.Equal(t, "book", dig(t, body, "inlets", "orders", "bottleneck"))
}

var maximum = regexp.MustCompile(`^max\(([a-z_]+)\{([^{}]*)\}\)$`)

// evaluate evaluates max(name{label="value",…}) over what a registry has.
func evaluate(t *testing.T, registry *prometheus.Registry, query string) float64 {
	t.Helper()
	parts := maximum.FindStringSubmatch(query)
	require.NotNil(t, parts, query)
	families, err := registry.Gather()
	require.NoError(t, err)
	most, found := math.Inf(-1), false
	for _, family := range families {
		if family.GetName() != parts[1] {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			matches := true
			for want := range strings.SplitSeq(parts[2], ",") {
				name, value, _ := strings.Cut(want, "=")
				text, err := strconv.Unquote(value)
				require.NoError(t, err)
				matches = matches && labels[name] == text
			}
			if matches {
				most, found = max(most, m.GetGauge().GetValue()), true
			}
		}
	}
	require.True(t, found, "nothing is there for %s", query)
	return most
}

// The keys are those of pkg/scalers/prometheus_scaler.go of KEDA.
func TestTheManifestForPrometheusFindsItsNumber(t *testing.T) {
	l := running(t)
	of := metadata(t, manifest(t, "keda-prometheus.yaml"), "prometheus", []string{"serverAddress", "query", "threshold"}, []string{"activationThreshold", "ignoreNullValues"})
	value := evaluate(t, l.metrics, digText(t, of, "query"))
	require.Equal(t, l.inlet.WantedProcesses, replicas(t, value, digText(t, of, "threshold")))
}

func TestTheAutoscalerOfKubernetesFindsItsNumberThroughTheAdapter(t *testing.T) {
	l := running(t)
	hpa := manifest(t, "hpa.yaml")
	require.Equal(t, "shop", dig(t, hpa, "spec", "scaleTargetRef", "name"))
	require.Len(t, dig(t, hpa, "spec", "metrics"), 1)
	metric := dig(t, hpa, "spec", "metrics", 0, "external").(object)
	require.Equal(t, "AverageValue", dig(t, metric, "target", "type"))

	// The types of pkg/config of prometheus-adapter.
	var config struct {
		ExternalRules []struct {
			SeriesQuery string `yaml:"seriesQuery"`
			Resources   struct {
				Namespaced *bool `yaml:"namespaced"`
			} `yaml:"resources"`
			Name struct {
				Matches string `yaml:"matches"`
				As      string `yaml:"as"`
			} `yaml:"name"`
			MetricsQuery string `yaml:"metricsQuery"`
		} `yaml:"externalRules"`
	}
	file, err := os.Open(filepath.Join(manifests, "prometheus-adapter.yaml"))
	require.NoError(t, err)
	defer file.Close()
	d := yaml.NewDecoder(file)
	d.KnownFields(true)
	require.NoError(t, d.Decode(&config))
	require.Len(t, config.ExternalRules, 1)
	rule := config.ExternalRules[0]
	require.False(t, *rule.Resources.Namespaced)
	series, _, _ := strings.Cut(rule.SeriesQuery, "{")
	require.Equal(t, `golda_fleet_wanted_processes{pipeline!=""}`, rule.SeriesQuery)
	require.Equal(t, digText(t, metric, "metric", "name"), regexp.MustCompile(rule.Name.Matches).ReplaceAllString(series, rule.Name.As))

	var matchers []string
	for name, value := range dig(t, metric, "metric", "selector", "matchLabels").(object) {
		matchers = append(matchers, fmt.Sprintf("%s=%q", name, value))
	}
	query, err := template.New("query").Delims("<<", ">>").Parse(rule.MetricsQuery)
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, query.Execute(&text, map[string]string{"Series": series, "LabelMatchers": strings.Join(matchers, ",")}))
	value := evaluate(t, l.metrics, text.String())
	require.Equal(t, l.inlet.WantedProcesses, replicas(t, value, digText(t, metric, "target", "averageValue")))
}

// The request and the fields are those of pkg/scalers/nats_jetstream_scaler.go of KEDA.
func TestTheManifestForJetStreamFindsItsNumber(t *testing.T) {
	l := running(t)
	of := metadata(t, manifest(t, "keda-nats-jetstream.yaml"), "nats-jetstream",
		[]string{"natsServerMonitoringEndpoint", "account", "stream", "consumer", "lagThreshold"}, []string{"activationLagThreshold", "useHttps"})
	answer, err := http.Get(fmt.Sprintf("http://%s/jsz?acc=%s&consumers=true&config=true", l.server.MonitorAddr(), digText(t, of, "account")))
	require.NoError(t, err)
	defer answer.Body.Close()
	var body struct {
		Accounts []struct {
			Name    string `json:"name"`
			Streams []struct {
				Name      string `json:"name"`
				Consumers []struct {
					Name       string `json:"name"`
					Pending    int    `json:"num_pending"`
					AckPending int    `json:"num_ack_pending"`
				} `json:"consumer_detail"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
	lag := -1
	for _, account := range body.Accounts {
		for _, stream := range account.Streams {
			for _, consumer := range stream.Consumers {
				if account.Name == of["account"] && stream.Name == of["stream"] && consumer.Name == of["consumer"] {
					lag = consumer.Pending + consumer.AckPending
				}
			}
		}
	}
	require.Equal(t, 20, lag)
	require.Equal(t, 1, replicas(t, float64(lag), digText(t, of, "lagThreshold")))
}
