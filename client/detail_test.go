package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

// followed are the details of a run, to the end of the sequence.
func followed(t *testing.T, c *client.Client, run, after string, last int, follow bool) (kinds, pos []string) {
	t.Helper()
	for item, err := range c.FollowDetail(t.Context(), run, after, last, follow) {
		if err != nil {
			t.Fatal(err)
		}
		pos = append(pos, item.Pos)
		if item.Kind != "detail" { // these are not the same for all agents
			kinds = append(kinds, item.Kind)
		}
	}
	return kinds, pos
}

func TestFollowDetailResumesAnywhere(t *testing.T) {
	s := begin(t)
	c := connect(t, s, embedded.OperatorUser)
	run := submit(t, c, "Which files are here?")
	kinds, all := followed(t, c, run, "", 0, true)
	if want := "status status text_output status completion"; strings.Join(kinds, " ") != want {
		t.Errorf("got %v, want %s", kinds, want)
	}
	for i, pos := range all {
		if _, rest := followed(t, c, run, pos, 0, i%2 == 0); !slices.Equal(rest, all[i+1:]) {
			t.Errorf("after %s: %v, want %v", pos, rest, all[i+1:])
		}
	}
	if _, newest := followed(t, c, run, "", 2, true); !slices.Equal(newest, all[len(all)-2:]) {
		t.Errorf("the newest two: %v", newest)
	}
	for _, err := range c.FollowDetail(t.Context(), run, "", 0, true) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	page, err := c.Detail(t.Context(), api.DetailRequest{Run: run, Limit: 1})
	if err != nil || len(page.Items) != 1 || page.Done || page.Next != all[0] {
		t.Errorf("a page of one: %+v, %v", page, err)
	}
	if _, err := c.Detail(t.Context(), api.DetailRequest{Run: run, Wait: 61}); code(err) != api.Validation {
		t.Errorf("a long wait: %v", err)
	}
	for _, err := range c.FollowDetail(t.Context(), "none", "", 0, true) {
		if code(err) != api.NotFound {
			t.Errorf("an unknown run: %v", err)
		}
	}
	if _, err := connect(t, s, embedded.SubscriberUser).Detail(t.Context(), api.DetailRequest{Run: run}); !errors.Is(err,
		client.ErrDenied) {
		t.Errorf("without the right to ask: %v", err)
	}
}

// A follower continues when the responder is replaced, and when the server is, with each item
// once. It ends with its context, which is no error.
func TestFollowDetailSurvivesItsResponderAndItsServer(t *testing.T) {
	s := begin(t)
	c, ctx := connect(t, s, embedded.OperatorUser), t.Context()
	run := submit(t, c, "hold")
	if _, err := c.Detail(ctx, api.DetailRequest{Run: run}); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(ctx)
	leave()
	for _, err := range c.FollowDetail(gone, run, "", 0, true) {
		t.Errorf("with an ended context: %v", err)
	}
	raw, err := s.bus.OpenLog(ctx, "codex", run, runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	turn := runs.Entry{Kind: runs.Out, Time: 1, Body: []byte(`{"type":"turn.started"}` + "\n")}
	if err = raw.Append(ctx, turn); errors.Is(err, runs.ErrMoved) { // behind the start
		err = raw.Append(ctx, turn)
	}
	if err != nil {
		t.Fatal(err)
	}
	var kinds, pos []string
	ended, begun := make(chan error, 1), make(chan struct{}, 100)
	go func() {
		for item, err := range c.FollowDetail(ctx, run, "", 0, true) {
			if err != nil {
				ended <- err
				return
			}
			if pos = append(pos, item.Pos); item.Kind != "detail" {
				kinds = append(kinds, item.Kind)
			}
			begun <- struct{}{}
		}
		ended <- nil
	}()
	<-begun
	if err := errors.Join(s.leave(), s.serve(ctx)); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(s.server.URL(), "nats://")
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	next, err := open(ctx, s.dir, address)
	if err != nil {
		t.Fatal(err)
	}
	*s = *next
	if err := s.release(ctx, run); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if want := "status status status text_output status completion"; strings.Join(kinds, " ") != want {
		t.Errorf("got %v, want %s", kinds, want)
	}
	if _, all := followed(t, c, run, "", 0, false); !slices.Equal(pos, all) {
		t.Errorf("got %v, want %v", pos, all)
	}
}
