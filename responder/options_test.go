package responder_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// First all options and extensions are looked up in what the agent can do, then their values, then what they say
// together. No error has a value.
func TestOptionsFailClosed(t *testing.T) {
	s := responder.New(responder.Config{Agents: known.All()})
	long := strings.Repeat("secret", 200)
	for _, c := range []struct{ q, want string }{
		{`{}`, ""},
		{`{"addDirs":["a"],"nonInteractive":true,"externalSandbox":true}`, ""},
		{`{"externalSandbox":true,"mode":"danger-full-access"}`, ""},
		{`{"agent":"claude","extensions":{"agent_api.exec.external_sandbox.v1":true}}`, ""},
		{`{"agent":"opencode","nonInteractive":false,"model":"a/b"}`, ""},
		{`{"agent":"kimi","nonInteractive":true,"model":"m"}`, ""},

		// What the agent cannot do.
		{`{"agent":"gemini","addDirs":["a"]}`, "UNSUPPORTED addDirs gemini_cli agent_api.exec.add_dirs.v1"},
		{`{"agent":"gemini","addDirs":[],"mode":"x"}`, "UNSUPPORTED addDirs gemini_cli agent_api.exec.add_dirs.v1"},
		{`{"agent":"opencode","externalSandbox":false}`, "UNSUPPORTED externalSandbox opencode agent_api.exec.external_sandbox.v1"},
		{`{"agent":"gemini","extensions":{"agent_api.exec.external_sandbox.v1":1,"agent_api.exec.add_dirs.v1":2}}`,
			"UNSUPPORTED extensions gemini_cli agent_api.exec.add_dirs.v1"},
		{`{"agent":"kimi","extensions":{"agent_api.config.model.v1":"m"}}`,
			"UNSUPPORTED extensions kimi_code agent_api.config.model.v1"},
		{`{"extensions":{"agent_api.exec.add_dirs.v1":7,"backend.codex.exec.sandbox_mode":"read-only"}}`,
			"UNSUPPORTED extensions codex backend.codex.exec.sandbox_mode"},
		{`{"extensions":{"agent_api.run":true}}`, "UNSUPPORTED extensions codex agent_api.run"},
		{`{"extensions":{"se cret":true}}`, "UNSUPPORTED extensions codex "},
		{`{"live":true,"addDirs":["a"]}`, ""},
		{`{"agent":"kimi","addDirs":["a"]}`, ""},
		{`{"agent":"qwen","addDirs":["a"]}`, "UNSUPPORTED addDirs qwen_code agent_api.exec.add_dirs.v1"},
		{`{"agent":"gemini","live":true,"addDirs":["a"]}`, "UNSUPPORTED addDirs gemini_cli agent_api.exec.add_dirs.v1"},
		{`{"live":true,"externalSandbox":true}`, "UNSUPPORTED externalSandbox codex agent_api.exec.external_sandbox.v1"},
		{`{"agent":"unknown","addDirs":[]}`, "agent: must be one of codex, claude, gemini, opencode, copilot, qwen, kimi; " +
			"addDirs: must be 1 to 16 directories, got 0"},

		// Values.
		{`{"addDirs":[]}`, "addDirs: must be 1 to 16 directories, got 0"},
		{`{"addDirs":["a"," "]}`, "addDirs.1: must be a path of printable text, at most 1024 bytes"},
		{`{"addDirs":["` + long + `"]}`, "addDirs.0: at most 1024 bytes"},
		{`{"extensions":{"agent_api.config.model.v1":" m "}}`, ""},
		{`{"extensions":{"agent_api.config.model.v1":7}}`, "extensions: invalid agent_api.config.model.v1"},
		{`{"extensions":{"agent_api.config.model.v1":" "}}`, "extensions: invalid agent_api.config.model.v1"},
		{`{"extensions":{"agent_api.config.model.v1":null}}`, "extensions: invalid agent_api.config.model.v1"},
		{`{"extensions":{"agent_api.config.model.v1":"` + long + `"}}`, "extensions: invalid agent_api.config.model.v1"},
		{`{"extensions":{"agent_api.exec.non_interactive":"true"}}`, "extensions: invalid agent_api.exec.non_interactive"},
		{`{"extensions":{"agent_api.exec.external_sandbox.v1":null}}`, "extensions: invalid agent_api.exec.external_sandbox.v1"},
		{`{"extensions":{"agent_api.exec.add_dirs.v1":["a"]}}`, "extensions: invalid agent_api.exec.add_dirs.v1"},
		{`{"extensions":{"agent_api.exec.add_dirs.v1":{"dirs":["a"],"x":1}}}`, "extensions: invalid agent_api.exec.add_dirs.v1"},
		{`{"extensions":{"agent_api.exec.add_dirs.v1":{}}}`, "extensions: invalid agent_api.exec.add_dirs.v1"},
		{`{"extensions":{"agent_api.exec.add_dirs.v1":{"dirs":"a"}}}`, "extensions: invalid agent_api.exec.add_dirs.v1.dirs"},
		{`{"extensions":{"agent_api.exec.add_dirs.v1":{"dirs":[]}}}`, "extensions: invalid agent_api.exec.add_dirs.v1.dirs"},
		{`{"extensions":{"agent_api.exec.add_dirs.v1":{"dirs":["a",7]}}}`, "extensions: invalid agent_api.exec.add_dirs.v1.dirs[1]"},
		{`{"extensions":{"agent_api.exec.add_dirs.v1":{"dirs":["a","b","` + long + `"]}}}`,
			"extensions: invalid agent_api.exec.add_dirs.v1.dirs[2]"},
		{`{"extensions":{"agent_api.exec.add_dirs.v1":{"dirs":["a\u0001b"]}}}`,
			"extensions: invalid agent_api.exec.add_dirs.v1.dirs[0]"},
		{`{"extensions":{` + strings.TrimSuffix(strings.Repeat(`"x%d":1,`, 17), ",") + `}}`,
			"extensions: at most 16, and 131072 bytes"},

		// What they say together.
		{`{"model":"m","extensions":{"agent_api.config.model.v1":"m"}}`, ""},
		{`{"model":"m","extensions":{"agent_api.config.model.v1":"n"}}`, "model: is given as an extension too, with another value"},
		{`{"addDirs":["a"],"extensions":{"agent_api.exec.add_dirs.v1":{"dirs":["a"]}}}`, ""},
		{`{"addDirs":["a"],"extensions":{"agent_api.exec.add_dirs.v1":{"dirs":["b"]}}}`,
			"addDirs: is given as an extension too, with another value"},
		{`{"externalSandbox":false,"extensions":{"agent_api.exec.external_sandbox.v1":true}}`,
			"externalSandbox: is given as an extension too, with another value"},
		{`{"externalSandbox":true,"nonInteractive":false}`, "nonInteractive: must not be false with externalSandbox"},
		{`{"externalSandbox":true,"extensions":{"agent_api.exec.non_interactive":false}}`,
			"extensions: invalid agent_api.exec.non_interactive"},
		{`{"externalSandbox":true,"mode":"read-only"}`, "mode: must be absent or danger-full-access with externalSandbox; " +
			"externalSandbox: only in mode danger-full-access, which it implies"},
		{`{"externalSandbox":false,"mode":"workspace-write"}`, "confirm: must be true for mode workspace-write: the agent may change files"},
		{`{"live":true,"ask":true,"nonInteractive":true}`, "nonInteractive: contradicts ask"},
		{`{"live":true,"ask":false,"nonInteractive":true}`, ""},
	} {
		for strings.Contains(c.q, "%d") {
			c.q = strings.Replace(c.q, "%d", fmt.Sprint(len(c.q)), 1)
		}
		q := api.Submission{Task: runs.Task{Prompt: "x"}}
		if err := json.Unmarshal([]byte(c.q), &q); err != nil {
			t.Fatal(err)
		}
		got := ""
		var e *api.Error
		if err := s.CheckSubmit(q); errors.As(err, &e) && e.Code == api.Unsupported {
			got = fmt.Sprintf("UNSUPPORTED %s %s %s", e.Field, e.Agent, e.Capability)
			if !strings.Contains(e.Message, e.Capability) || strings.Contains(e.Message, "se cret") {
				t.Errorf("%s: %s", c.q, e.Message)
			}
		} else if err != nil {
			var all []string
			for _, i := range e.AllIssues() {
				all = append(all, i.Field+": "+i.Problem)
			}
			got = strings.Join(all, "; ")
		}
		if got != c.want {
			t.Errorf("%.200s:\n got %s\nwant %s", c.q, got, c.want)
		}
	}
}

// Over NATS, too, a missing capability is said before a label that is reserved.
func TestACapabilityIsMissingBeforeALabelIsReserved(t *testing.T) {
	s := responder.New(responder.Config{Agents: known.All()})
	for _, o := range s.Operations() {
		if o.Name != api.OpSubmit.Name {
			continue
		}
		for agent, want := range map[string]api.Code{"codex": api.Validation, "gemini": api.Unsupported} {
			_, err := o.Do(t.Context(), &api.Submission{Task: runs.Task{Prompt: "x", AddDirs: []string{"a"},
				Attributes: runs.Attributes{Agent: agent, Labels: runs.LabelsOf(map[string]string{"linesman.x": "y"})}}})
			if !api.Is(err, want) {
				t.Errorf("%s: %v, want %s", agent, err, want)
			}
		}
	}
}
