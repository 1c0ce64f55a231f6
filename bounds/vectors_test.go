package bounds_test

import (
	"slices"
	"testing"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/test/corpus/vectors"
)

func TestVectors(t *testing.T) {
	ran := map[string]int{}
	for _, v := range vectors.Load(t) {
		check, known := map[string]func(*testing.T, vectors.Vector){
			"channel":    channelVector,
			"message":    messageVector,
			"text_split": splitVector,
			"final_text": finalTextVector,
			"data":       dataVector,
		}[v.Op]
		if !known {
			continue // a vector of the normalizer
		}
		ran[v.Op]++
		t.Run(v.ID, func(t *testing.T) {
			t.Log(v.Why)
			check(t, v)
		})
	}
	for _, op := range []string{"channel", "message", "text_split", "final_text", "data"} {
		if ran[op] == 0 {
			t.Errorf("no vector for %s was run", op)
		}
	}
}

func channelVector(t *testing.T, v vectors.Vector) {
	var in, out struct{ Channel *vectors.String }
	vectors.Decode(t, v.In, &in)
	vectors.Decode(t, v.Out, &out)
	if got, want := len(*in.Channel) <= bounds.MaxChannel, out.Channel != nil; got != want {
		t.Errorf("a channel of %d bytes: fits is %v, want %v", len(*in.Channel), got, want)
	}
	if out.Channel != nil && *out.Channel != *in.Channel {
		t.Error("the vector changes a channel, which no rule does")
	}
}

func messageVector(t *testing.T, v vectors.Vector) {
	var in struct {
		Message vectors.String
		Bound   *int
	}
	var out struct{ Message vectors.String }
	vectors.Decode(t, v.In, &in)
	vectors.Decode(t, v.Out, &out)
	got := bounds.Truncate(string(in.Message), bounds.MaxMessage)
	if in.Bound != nil {
		got = bounds.Truncate(string(in.Message), *in.Bound)
	}
	if got != string(out.Message) {
		t.Errorf("got %d bytes, ending in %q; want %d, ending in %q", len(got), tail(got), len(out.Message),
			tail(string(out.Message)))
	}
}

func splitVector(t *testing.T, v vectors.Vector) {
	var in struct {
		Text  vectors.String
		Bound *int
	}
	var out struct{ Chunks []vectors.String }
	vectors.Decode(t, v.In, &in)
	vectors.Decode(t, v.Out, &out)
	bound := bounds.MaxText
	if in.Bound != nil {
		bound = *in.Bound
	}
	got := slices.Collect(bounds.Split(string(in.Text), bound))
	if len(got) != len(out.Chunks) {
		t.Fatalf("got %d parts, want %d", len(got), len(out.Chunks))
	}
	for i, want := range out.Chunks {
		if got[i] != string(want) {
			t.Errorf("part %d: got %d bytes, want %d", i, len(got[i]), len(want))
		}
	}
}

func finalTextVector(t *testing.T, v vectors.Vector) {
	var in, out struct{ Text vectors.String }
	vectors.Decode(t, v.In, &in)
	vectors.Decode(t, v.Out, &out)
	if got := bounds.Truncate(string(in.Text), bounds.MaxFinalText); got != string(out.Text) {
		t.Errorf("got %d bytes, ending in %q; want %d, ending in %q", len(got), tail(got), len(out.Text),
			tail(string(out.Text)))
	}
}

func dataVector(t *testing.T, v vectors.Vector) {
	var in struct {
		DataJSON vectors.String `json:"data_json"`
	}
	var out struct {
		SerializedBytes int `json:"serialized_bytes"`
		Dropped         bool
	}
	vectors.Decode(t, v.In, &in)
	vectors.Decode(t, v.Out, &out)
	size, err := bounds.ValueSize([]byte(in.DataJSON))
	if err != nil || size != out.SerializedBytes {
		t.Errorf("ValueSize: got %d, %v; want %d", size, err, out.SerializedBytes)
	}
	compact, err := bounds.AppendValue(nil, []byte(in.DataJSON))
	if err != nil || len(compact) != out.SerializedBytes || (len(compact) > bounds.MaxData) != out.Dropped {
		t.Errorf("AppendValue: got %d bytes, %v, at most %d; want %d, dropped %v",
			len(compact), err, bounds.MaxData, out.SerializedBytes, out.Dropped)
	}
}

func tail(s string) string { return s[max(len(s)-20, 0):] }
