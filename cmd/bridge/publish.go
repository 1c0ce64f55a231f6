package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/internal/lazy"
)

// answer writes the response and removes the request.
func (w *dirWatcher) answer(e entry, o outcome) error {
	b, err := newResponse(e.ID, o, time.Now()).encode()
	if err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	if err := w.dir.write(unpublishedName(e), b); err != nil {
		return fmt.Errorf("write the response: %w", err)
	}
	w.step("written")
	e.Answered, e.Unended = time.Now().UnixMilli(), o.Unended
	if err := w.journal.put(e); err != nil {
		return err
	}
	w.step("answered")
	if err := w.publish(e); err != nil {
		return err
	}
	w.log.Info("answered", zap.String("request", e.ID), zap.String("run", e.Run), zap.String("status", o.Status))
	return w.removeRequest(e.Name, e.ID)
}

// unpublishedName returns the name of an answer that readers must not see yet.
func unpublishedName(e entry) string { return ".agent-response." + digest(e.ID) + ".tmp" }

var unpublishedPattern = lazy.Regexp(`^\.agent-response\.[0-9a-f]{32}\.tmp$`)

// publish renames an answer to its response file, unless that was done before.
// If the request is gone, it removes the answer.
func (w *dirWatcher) publish(e entry) error {
	exists, err := w.dir.exists(unpublishedName(e))
	if err != nil || !exists {
		return err
	}
	if id, err := w.requestID(e.Name); err != nil {
		return err
	} else if id != e.ID {
		w.log.Info("the request is gone, its answer is dropped", zap.String("request", e.ID), zap.String("run", e.Run))
		if err := w.dir.remove(unpublishedName(e)); err != nil {
			return err
		}
		if e.Unended { // its run is cancelled first, as that of any request whose file is missing
			e.Answered, e.Unended = 0, false
			return w.journal.put(e)
		}
		return w.journal.forget(e.ID) // the program may submit the request again
	}
	if w.responseID(e.Name) == e.ID { // another program was faster
		return w.dir.remove(unpublishedName(e))
	}
	if err := w.quarantineStale(e.Name, e.ID); err != nil {
		return err
	}
	response, _ := responseName(e.Name)
	if err := w.dir.rename(unpublishedName(e), response); err != nil {
		return fmt.Errorf("publish the response: %w", err)
	}
	w.step("published")
	return nil
}

// quarantineStale moves aside a response to another request: readers do not
// compare ids, and would accept it.
func (w *dirWatcher) quarantineStale(name, id string) error {
	response, _ := responseName(name)
	b, v, err := w.dir.read(response, MaxResponse)
	if errors.Is(err, fs.ErrNotExist) || err == nil && responseID(b) == id {
		return nil
	}
	w.step("stale")
	to, err := w.dir.quarantine(response, "stale", "", v, time.Now())
	if errors.Is(err, fs.ErrNotExist) { // a reader has removed it meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("move a stale response aside: %w", err)
	}
	w.log.Warn("moved a stale response aside", zap.String("file", response), zap.String("to", to))
	return nil
}

// responseID returns the id in the response file of a request, or "" if there
// is no readable one.
func (w *dirWatcher) responseID(name string) string {
	response, _ := responseName(name)
	b, _, err := w.dir.read(response, MaxResponse)
	if err != nil {
		return ""
	}
	return responseID(b)
}

func responseID(b []byte) string {
	if len(b) > MaxResponse {
		return ""
	}
	return idOf(b)
}

// foundResponse returns what another program has answered to a request, if it has. It remembers the content of the
// response file as it was read first: a reader may remove the file before the run is notified.
func (w *dirWatcher) foundResponse(name, id string) (outcome, bool) {
	if by, known := w.found.Load(id); known {
		return by.(outcome), true
	}
	response, _ := responseName(name)
	b, _, err := w.dir.read(response, MaxResponse)
	if err != nil || responseID(b) != id {
		return outcome{}, false
	}
	by, _ := w.found.LoadOrStore(id, outcomeOf(b))
	return by.(outcome), true
}

// outcomeOf returns what a response file of another program says.
func outcomeOf(b []byte) outcome {
	var r struct {
		Status  string
		Text    string `json:"response"` // null is ""
		Message string `json:"error_message"`
	}
	if Check(b) != nil || json.Unmarshal(b, &r) != nil {
		return failed("the response of another program violates the contract")
	}
	return outcome{Status: r.Status, Text: r.Text, Message: r.Message}
}

// requestID returns the id in a request file, or "" if there is no such file.
func (w *dirWatcher) requestID(name string) (string, error) {
	b, _, err := w.dir.read(name, maxRequest)
	if _, foreign := errors.AsType[*foreignError](err); foreign || errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the request again: %w", err)
	}
	r, err := parseRequest(b)
	if err != nil {
		return "", fmt.Errorf("the request is being written again: %w", err)
	}
	return r.ID, nil
}

// removeRequest removes an answered request file. It renames the file first,
// and renames it back if the file holds another request.
func (w *dirWatcher) removeRequest(name, id string) error {
	taken := name + takenSuffix
	if err := w.dir.rename(name, taken); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove the request: %w", err)
	}
	w.step("taken")
	return w.finishRemoval(name, taken, id)
}

// takenSuffix ends the name of a request file that is being removed.
const takenSuffix = ".taken"

// finishRemoval completes the removal of a renamed request file.
func (w *dirWatcher) finishRemoval(name, taken, id string) error {
	found, err := w.requestID(taken)
	if err != nil || found != id {
		if err := w.dir.restore(taken, name); err != nil {
			return fmt.Errorf("put a newer request back: %w", err)
		}
	}
	if err := w.dir.remove(taken); err != nil {
		return fmt.Errorf("remove the request: %w", err)
	}
	w.step("removed")
	return w.dir.sync()
}

// idOf returns the request_id of a JSON object, or "".
func idOf(b []byte) string {
	var field map[string]json.RawMessage
	if json.Unmarshal(b, &field) != nil {
		return ""
	}
	id, _ := textOf(field["request_id"])
	return id
}

// recover completes the work of a killed bridge: it publishes recorded
// answers, and removes the other files.
func (w *dirWatcher) recover() error {
	names, err := w.dir.names(maxLeftovers, func(name string) bool {
		return strings.HasSuffix(name, takenSuffix) || unpublishedPattern().MatchString(name)
	}, nil)
	if err != nil {
		return err
	}
	entries := w.journal.byUnpublishedName()
	for _, name := range names {
		if request, ok := strings.CutSuffix(name, takenSuffix); ok {
			err = w.recoverTaken(request, name)
		} else if e, known := entries[name]; !known {
			err = w.dir.remove(name)
		} else if e.Answered != 0 {
			err = w.publish(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recoverTaken removes an answered request, and restores any other.
func (w *dirWatcher) recoverTaken(request, taken string) error {
	if _, ok := responseName(request); !ok {
		return nil // not a file of the bridge
	}
	id, err := w.requestID(taken)
	if e, known := w.journal.get(id); err != nil || !known || e.Answered == 0 {
		id = "" // not answered: restore it
	}
	return w.finishRemoval(request, taken, id)
}
