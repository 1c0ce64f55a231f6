package tools_test

import (
	"encoding/json"
	"testing"
)

// BenchmarkStatusCall is the part of a status that is neither NATS nor HTTP:
// reading the arguments, looking into the table, and writing the envelope.
func BenchmarkStatusCall(b *testing.B) {
	s := newStage(b, nil)
	submitted, err := s.tools.Call(b.Context(), "_codex_local_exec",
		json.RawMessage(`{"task":"look around","format":"json"}`), nil)
	if err != nil || submitted.IsError {
		b.Fatalf("submission: %s, %v", submitted.Envelope, err)
	}
	var run struct {
		Data struct {
			TaskID string `json:"task_id"`
		}
	}
	if err := json.Unmarshal(submitted.Envelope, &run); err != nil {
		b.Fatal(err)
	}
	args := json.RawMessage(`{"format":"json","task_id":"` + run.Data.TaskID + `"}`)
	b.ReportAllocs()
	for b.Loop() {
		a, err := s.tools.Call(b.Context(), "_codex_local_status", args, nil)
		if b.ReportMetric(float64(len(a.Envelope)), "bytes"); err != nil || a.IsError {
			b.Fatalf("%s, %v", a.Envelope, err)
		}
	}
}
