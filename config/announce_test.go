package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestProfilesAreTablesOrJSON(t *testing.T) {
	want := profiles{
		{Name: "review", Agent: "claude", Dir: "/home/u/src", Mode: "workspace-write", Labels: map[string]string{"team": "a"}},
		{Name: "x", Agent: "codex", Live: true},
	}
	for _, text := range []string{
		"[[announce.profiles]]\nname = 'review'\nagent = 'claude'\nworking_dir = '~/src'\nmode = 'workspace-write'\n" +
			"labels = {team = 'a'}\n[[announce.profiles]]\nname = 'x'\nagent = 'codex'\nlive = true\n",
		"[announce]\nprofiles = [{name = 'review', agent = 'claude', working_dir = '/home/u/src', " +
			"mode = 'workspace-write', labels.team = 'a'}, {name = 'x', agent = 'codex', live = true}]\n",
	} {
		c, err := Load(Sources{File: file(t, text), Environ: []string{"HOME=/home/u"}})
		if err != nil || !reflect.DeepEqual(c.Announce.Profiles, want) {
			t.Errorf("%s: %v, %v", text, c.Announce.Profiles, err)
		}
		again, err := Load(Sources{Environ: []string{"HOME=/home/u", "LINESMAN_ANNOUNCE_PROFILES=" +
			c.Announce.Profiles.String()}})
		if err != nil || !reflect.DeepEqual(again.Announce.Profiles, want) {
			t.Errorf("read back: %v, %v", again.Announce.Profiles, err)
		}
	}
}

func TestWrongProfilesAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		`[{"name":"a.b","agent":"codex"}]`:                                                   "a name of 1 to 63",
		`[{"name":"","agent":"codex"}]`:                                                      "a name of 1 to 63",
		`[{"name":"a","agent":"sed"}]`:                                                       "the agent of each",
		`[{"name":"a","agent":"codex","mode":"all"}]`:                                        "the mode of each",
		`[{"name":"a","agent":"codex","queue":"a.*"}]`:                                       "the queue of each",
		`[{"name":"a","agent":"codex"},{"name":"a","agent":"codex"}]`:                        "the same agent and name",
		`[{"name":"a","agent":"codex","dir":"/"}]`:                                           "not an array of profiles",
		`{"name":"a","agent":"codex"}`:                                                       "not an array of profiles",
		`[` + strings.Repeat(`{"name":"a","agent":"codex"},`, maxProfiles) + `{"name":"b"}]`: "at most 64",
	} {
		_, err := Load(Sources{Environ: []string{"HOME=/h", "LINESMAN_ANNOUNCE_PROFILES=" + text}})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, v := range []string{"ANNOUNCE_OWNER=a.b", "ANNOUNCE_OWNER=*", "ANNOUNCE_NATS=x", "ANNOUNCE_CREDS=/x"} {
		if _, err := Load(Sources{Environ: []string{"HOME=/h", "LINESMAN_" + v}}); err == nil {
			t.Errorf("%s is accepted", v)
		}
	}
}
