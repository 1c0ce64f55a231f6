// Package openapi makes the OpenAPI document of the REST API: paths of the table of operations and the
// routes of package rest, schemas of the Go types with their comments, parameters of the tables by which
// handlers read them. notes.go has what those do not say.
//
//	rest.Routes, api.Op ──▶ paths ──┐
//	Go types, comments ──▶ schemas ─┴─▶ responder/rest/openapi.json
package openapi

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/responder/rest"
)

type object = map[string]any

// Document returns the document. The working directory must be the root of the module, whose comments
// are read.
func Document() ([]byte, error) {
	s, err := newSchemas()
	if err != nil {
		return nil, err
	}
	outcomes, summaries := map[string]reflect.Type{}, map[string]string{}
	for _, op := range (*responder.Service)(nil).Operations() {
		outcomes[op.Route], summaries[op.Route] = op.Outcome, op.About
	}
	paths := map[string]object{}
	for _, route := range rest.New(rest.Config{}).Routes() {
		method, path, _ := strings.Cut(route.Pattern, " ")
		if paths[path] == nil {
			paths[path] = object{}
			if strings.Contains(path, "{id}") {
				paths[path]["parameters"] = []any{reference("parameters", "id")}
			}
			for _, name := range []string{"question", "message"} {
				if strings.Contains(path, "{"+name+"}") {
					paths[path]["parameters"] = append(paths[path]["parameters"].([]any), reference("parameters", name))
				}
			}
		}
		note := notes[route.ID]
		note.summary = cmp.Or(note.summary, summaries[route.Pattern])
		if note.outcome == nil {
			note.outcome = outcomes[route.Pattern]
		}
		paths[path][strings.ToLower(method)] = s.operation(route, note)
	}
	components := object{
		"parameters": parameters,
		"schemas":    s.all(),
		"securitySchemes": object{"token": object{
			"type": "http", "scheme": "bearer", "description": "The token of the token file, or one of " +
				"`linesman token create`. Scopes: read, submit, raw, answer. The scope metrics is for /metrics.",
		}},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(struct {
		Version    string            `json:"openapi"`
		Info       object            `json:"info"`
		Servers    []object          `json:"servers"`
		Paths      map[string]object `json:"paths"`
		Components object            `json:"components"`
	}{"3.1.0", object{"title": "linesman", "version": "1", "description": about},
		[]object{{"url": "/", "description": "The listener that serves this document."}}, paths, components})
	return bytes.ReplaceAll(b.Bytes(), []byte("#/$defs/"), []byte("#/components/schemas/")), err
}

type operation struct {
	ID          string              `json:"operationId"`
	Summary     string              `json:"summary"`
	Description string              `json:"description,omitempty"`
	Security    []object            `json:"security"`
	Parameters  []any               `json:"parameters,omitempty"`
	Body        any                 `json:"requestBody,omitempty"`
	Responses   map[string]response `json:"responses"`
}

type response struct {
	Description string            `json:"description"`
	Headers     map[string]object `json:"headers,omitempty"`
	Content     map[string]object `json:"content,omitempty"`
}

func (s *schemas) operation(route rest.Route, note note) operation {
	required := func(p request.Param) bool { return p.Required && !slices.Contains(note.without, p.Name) }
	o := operation{
		ID: cmp.Or(note.id, route.ID), Summary: note.summary, Description: note.about,
		Security: []object{{"token": []string{route.Scope}}}, Responses: map[string]response{},
	}
	var after any = object{"type": "string"}
	for _, p := range route.Query {
		schema := schemaOf(p)
		o.Parameters = append(o.Parameters, parameter(p.Name, "query", p.About, schema))
		if p.Name == "after" {
			after = schema
		}
	}
	if slices.Contains(route.Media, "text/event-stream") {
		o.Parameters = append(o.Parameters, parameter("Last-Event-ID", "header", note.resumed(), after))
	}
	if note.answers[304] != "" {
		o.Parameters = append(o.Parameters, parameter("If-None-Match", "header", "An `ETag` that is known.",
			object{"type": "string"}))
	}
	if strings.HasPrefix(route.Pattern, "POST ") || note.request != "" {
		o.Parameters = append(o.Parameters, reference("parameters", "idempotencyKey"))
	}
	if note.request != "" {
		o.Body = object{
			"required": slices.ContainsFunc(note.body, required),
			"content":  object{"application/json": object{"schema": s.body(note)}},
		}
	}
	for status, text := range note.statuses(route) {
		name := fmt.Sprint(status)
		if status == 0 {
			name = "default"
		}
		o.Responses[name] = s.response(status, text, route, note)
	}
	return o
}

func (s *schemas) response(status int, text string, route rest.Route, note note) response {
	r := response{Description: text, Content: map[string]object{}}
	switch {
	case status == 204, status == 304:
		return response{Description: text}
	case status == 0, status >= 400:
		for media, name := range map[string]string{"application/problem+json": "Problem", adcpType: "AdcpEnvelope"} {
			r.Content[media] = object{"schema": reference("schemas", name)}
		}
		return r
	}
	r.Headers = note.headers
	for _, media := range route.Media {
		switch media {
		case "application/json":
			r.Content[media] = object{"schema": s.of(note.outcome)}
		case adcpType:
			r.Content[media] = object{"schema": reference("schemas", "AdcpEnvelope")}
		case "text/event-stream":
			r.Content[media] = object{"schema": object{"type": "string"}}
		default: // bytes
			r.Content[media] = object{}
		}
	}
	return r
}

const adcpType = "application/adcp+json"

// statuses are the statuses of an answer with what they mean, 0 for all others.
func (n note) statuses(route rest.Route) map[int]string {
	all := map[int]string{}
	add := func(statuses ...int) {
		for _, status := range statuses {
			all[status] = meanings[status]
		}
	}
	add(0, 400, 401, 406)
	if route.ID != "describe" {
		add(503)
	}
	if route.Scope != "read" {
		add(403)
	}
	if strings.Contains(route.Pattern, "{id}") {
		add(404)
	}
	if strings.HasPrefix(route.Pattern, "POST ") || strings.HasPrefix(route.Pattern, "PATCH ") {
		add(409, 413, 415)
	}
	if n.answers[202] == "" {
		add(200)
	}
	for status, text := range n.answers {
		if all[status] = text; text == "" {
			add(status)
		}
	}
	return all
}

func parameter(name, in, about string, schema any) object {
	return object{"name": name, "in": in, "description": about, "schema": schema}
}

func reference(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

// maxNumber is the largest number that every reader of JSON keeps exactly.
const maxNumber = 1<<53 - 1

// schemaOf is the schema of a parameter, without its description.
func schemaOf(p request.Param) object {
	var all struct{ Properties map[string]object }
	if err := json.Unmarshal(request.Schema([]request.Param{p}), &all); err != nil {
		panic(err) // it is made of the table
	}
	schema := all.Properties[p.Name]
	delete(schema, "description")
	if most, _ := schema["maximum"].(float64); most > maxNumber {
		delete(schema, "maximum")
	}
	return schema
}

// ofTools is what the description of a parameter says to clients of the tools only.
var ofTools = regexp.MustCompile(` \(an extension of v3\.6\)| Required with format adcp.*`)

// body adds the schema of the body of a request, with the names of REST. What the path and the headers say,
// and what belongs to AdCP, is not in it. No property has a default: generators of clients would require it.
func (s *schemas) body(n note) object {
	properties, required := object{}, []string{}
	for _, p := range n.body {
		if p.Hidden || slices.Contains(n.without, p.Name) || slices.Contains(ofAdCP, p.Name) {
			continue
		}
		schema := schemaOf(p)
		about := ofTools.ReplaceAllString(p.About, "")
		if otherwise, ok := schema["default"].(string); ok {
			about += " Default: `" + otherwise + "`."
		}
		delete(schema, "default")
		schema["description"] = about
		switch p.Name {
		case "agent":
			schema["description"] = about + " Short names: `" + strings.Join(known.All().Names(), "`, `") + "`."
		case "labels": // as its description says
			schema["description"] = about + " Keys that begin with `linesman.` are reserved."
			schema["maxProperties"], schema["additionalProperties"] = 16, object{"type": "string", "maxLength": 256}
		}
		head, tail, _ := strings.Cut(p.Name, "_") // allow_destructive_git
		for word := range strings.SplitSeq(tail, "_") {
			if word != "" {
				head += strings.ToUpper(word[:1]) + word[1:]
			}
		}
		if properties[head] = schema; p.Required {
			required = append(required, head)
		}
	}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	s.made[n.request] = schema
	return reference("schemas", n.request)
}

// ofAdCP are parameters of the AdCP envelope, which the tools take too.
var ofAdCP = []string{"context", "context_id", "governance_context", "push_notification_config", "format"}

// run is what is known of a run after a request that changes it.
var run = reflect.TypeFor[api.Run]()
