package main

// sample is the result of one measurement. Times are in nanoseconds.
type sample struct {
	Commands      int     `json:"commands"`
	Answered      int     `json:"answered"` // commands that have ended, with a result or with a reason
	NsPerHop      float64 `json:"ns_per_hop"`
	CPUPerCommand float64 `json:"cpu_ns_per_command"`
	AllocsPerHop  float64 `json:"allocs_per_hop"`
	BytesPerHop   float64 `json:"bytes_per_hop"`

	P50     float64 `json:"p50_ns,omitempty"` // W5, W15
	P99     float64 `json:"p99_ns,omitempty"`
	SentP50 float64 `json:"sent_p50_ns,omitempty"` // the same, from the time when the request was sent
	SentP99 float64 `json:"sent_p99_ns,omitempty"`

	Died string `json:"died,omitempty"` // W6: the panic of a process that died

	BytesPerStage      float64 `json:"bytes_per_stage,omitempty"` // W7
	FreshBytesPerStage float64 `json:"fresh_bytes_per_stage,omitempty"`
	GoroutinesPerStage float64 `json:"goroutines_per_stage,omitempty"`

	turn int // measurements with the same turn followed one another
}
