package delegator

import (
	"embed"
	"fmt"
)

// The categories of answers.
const (
	executionAck   = "execution_ack"
	waitResult     = "wait_result"
	statusSnapshot = "status_snapshot"
	resultSet      = "result_set"
	registryInfo   = "registry_info"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

// Schemas are the JSON Schemas of the envelopes, by category, and of the error
// that any of them can hold, which the others refer to by its URI.
func Schemas() []Schema {
	var all []Schema
	for _, s := range []struct{ name, about string }{
		{executionAck, "Envelope of a task that was taken."},
		{waitResult, "Envelope of a task that was waited for."},
		{statusSnapshot, "Envelope of how tasks stand."},
		{resultSet, "Envelope of what came of a task."},
		{registryInfo, "Envelope of cancels, cleanups, environments and guides."},
		{"error", "Error of an envelope."},
	} {
		body, err := schemaFiles.ReadFile("schemas/" + s.name + ".json")
		if err != nil { // it is part of the program
			panic(fmt.Sprintf("delegator: schema %s: %v", s.name, err))
		}
		all = append(all, Schema{
			URI: "linesman://schemas/codex/v3.6/" + s.name + "/v1", Name: s.name, Description: s.about, Body: body,
		})
	}
	return all
}
