package v36

import (
	"embed"
	"fmt"
)

// The categories of answers.
const (
	ExecutionAck   = "execution_ack"
	WaitResult     = "wait_result"
	StatusSnapshot = "status_snapshot"
	ResultSet      = "result_set"
	RegistryInfo   = "registry_info"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

// Schemas are the JSON Schemas of the envelopes, by category, and of the error
// that any of them can hold, which the others refer to by its URI.
func Schemas() []Schema {
	var all []Schema
	for _, s := range []struct{ name, about string }{
		{ExecutionAck, "Envelope of a task that was taken."},
		{WaitResult, "Envelope of a task that was waited for."},
		{StatusSnapshot, "Envelope of how tasks stand."},
		{ResultSet, "Envelope of what came of a task."},
		{RegistryInfo, "Envelope of cancels, cleanups, environments and guides."},
		{"error", "Error of an envelope."},
	} {
		body, err := schemaFiles.ReadFile("schemas/" + s.name + ".json")
		if err != nil { // it is part of the program
			panic(fmt.Sprintf("v36: schema %s: %v", s.name, err))
		}
		all = append(all, Schema{
			URI: "linesman://schemas/codex/v3.6/" + s.name + "/v1", Name: s.name, Description: s.about, Body: body,
		})
	}
	return all
}
