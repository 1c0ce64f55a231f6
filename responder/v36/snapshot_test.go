package v36

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/api"
)

// A snapshot that writes itself must say what package json would say of it.
func TestSnapshotWritesWhatItsTagsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.String(), 0, 2)
		ext := rapid.Custom(func(t *rapid.T) entryExt {
			return entryExt{
				Lost: rapid.Bool().Draw(t, "lost"), Worker: rapid.String().Draw(t, "worker"), Reason: rapid.String().Draw(t,
					"reason"),
				Plan:     rapid.Ptr(rapid.Just(planData{1, 3}), true).Draw(t, "plan"),
				cloudExt: cloudExt{WebURL: rapid.String().Draw(t, "url")},
			}
		})
		n := func(name string) int { return rapid.IntRange(-1, 1<<40).Draw(t, name) }
		d := &snapshotData{
			Tasks: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) taskEntry {
				return taskEntry{
					TaskID: rapid.String().Draw(t, "id"), State: rapid.String().Draw(t, "state"), Started: rapid.String().Draw(t,
						"started"),
					Elapsed: rapid.Int64().Draw(t, "elapsed"), Lines: some.Draw(t, "lines"), Ext: ext.Draw(t, "ext"),
					Progress: rapid.Ptr(rapid.Custom(func(t *rapid.T) progressData {
						return progressData{
							rapid.Int().Draw(t, "percent"), rapid.Int().Draw(t, "done"), rapid.Int().Draw(t, "total"),
							rapid.Ptr(rapid.String(), true).Draw(t, "activity"),
						}
					}), true).Draw(t, "progress"),
				}
			}), 0, 2).Draw(t, "tasks"),
			Queue: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) queueEntry {
				return queueEntry{rapid.String().Draw(t, "id"), rapid.Int().Draw(t, "position")}
			}), 0, 2).Draw(t, "queue"),
			Recent: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) recentEntry {
				return recentEntry{
					rapid.String().Draw(t, "id"), rapid.String().Draw(t, "state"), rapid.Int64().Draw(t, "lasted"),
					rapid.String().Draw(t, "at"), ext.Draw(t, "ext"),
				}
			}), 0, 2).Draw(t, "recent"),
			Ext: snapshotExt{
				Stream: rapid.Ptr(rapid.Custom(func(t *rapid.T) api.Basis {
					return api.Basis{Seq: uint64(rapid.IntRange(0, 1<<50).Draw(t, "seq")),
						At: api.Time(rapid.Int64Range(0, 1<<42).Draw(t, "ts"))}
				}), true).Draw(t, "stream"),
				Tasks: n("unlisted tasks"), Queue: n("unlisted queue"),
				Statistics: rapid.Ptr(rapid.Just(Statistics{Working: 3}), true).Draw(t, "statistics"),
			},
		}
		d.Summary.Running, d.Summary.Queued, d.Summary.Recent = n("running"), n("queued"), n("recent")
		agree(t, d)
		agree(t, snapshotMeta{rapid.String().Draw(t, "now"), n("total")})
	})
}

func agree(t *rapid.T, v appender) {
	want, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got := v.appendJSON(nil)
	var x, y any
	if json.Unmarshal(want, &x) != nil || json.Unmarshal(got, &y) != nil || !reflect.DeepEqual(x, y) {
		t.Fatalf("it writes\n%s, and its tags say\n%s", got, want)
	}
}
