package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"
)

// answer writes the response, and removes the request.
func (f *folder) answer(e entry, o Outcome) error {
	b, err := newResponse(e.ID, o, time.Now()).Encode()
	if err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	if err := f.place.write(waiting(e), b); err != nil {
		return fmt.Errorf("write the response: %w", err)
	}
	f.step("written")
	e.Answered = time.Now().UnixMilli()
	if err := f.journal.put(e); err != nil {
		return err
	}
	f.step("answered")
	if err := f.publish(e); err != nil {
		return err
	}
	f.log.Info("answered", zap.String("request", e.ID), zap.String("run", e.Run), zap.String("status", o.Status))
	return f.retire(e.Name, e.ID)
}

// waiting is the name of an answer that nobody may see yet.
func waiting(e entry) string { return ".agent-response." + digest(e.ID) + ".tmp" }

var waitingName = regexp.MustCompile(`^\.agent-response\.[0-9a-f]{32}\.tmp$`)

// publish gives an answer its name, unless it had it already, or the request is
// no longer there.
func (f *folder) publish(e entry) error {
	there, err := f.place.exists(waiting(e))
	if err != nil || !there {
		return err
	}
	if id, err := f.requestID(e.Name); err != nil {
		return err
	} else if id != e.ID {
		f.log.Info("nobody waits for an answer any more", zap.String("request", e.ID), zap.String("run", e.Run))
		if err := f.place.remove(waiting(e)); err != nil {
			return err
		}
		return f.journal.forget(e.ID) // it may still come back
	}
	if f.responseID(e.Name) == e.ID { // somebody else was first
		return f.place.remove(waiting(e))
	}
	if err := f.clear(e.Name, e.ID); err != nil {
		return err
	}
	response, _ := ResponseName(e.Name)
	if err := f.place.rename(waiting(e), response); err != nil {
		return fmt.Errorf("publish the response: %w", err)
	}
	f.step("published")
	return nil
}

// clear moves a response aside that is not the answer to the request: readers
// would take it for one, for they do not compare ids.
func (f *folder) clear(name, id string) error {
	response, _ := ResponseName(name)
	there, err := f.place.exists(response)
	if err != nil || !there || f.responseID(name) == id {
		return err
	}
	to, err := f.place.aside(response, "stale", "", time.Now())
	if errors.Is(err, fs.ErrNotExist) { // its reader has taken it meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("move a stale response aside: %w", err)
	}
	f.log.Warn("moved a stale response aside", zap.String("file", response), zap.String("to", to))
	return nil
}

// responseID is the id in the response file of a request, "" where there is
// none that can be read.
func (f *folder) responseID(name string) string {
	response, _ := ResponseName(name)
	b, _, err := f.place.read(response, MaxResponse)
	if err != nil || len(b) > MaxResponse {
		return ""
	}
	return idOf(b)
}

// found is what the response file of a request says.
func (f *folder) found(name string) Outcome {
	response, _ := ResponseName(name)
	b, _, err := f.place.read(response, MaxResponse)
	var r struct {
		Status  string
		Text    string `json:"response"` // null is ""
		Message string `json:"error_message"`
	}
	if err != nil || Check(b) != nil || json.Unmarshal(b, &r) != nil {
		return failed("what somebody else wrote is no response by the contract")
	}
	return Outcome{Status: r.Status, Text: r.Text, Message: r.Message}
}

// requestID is the id in a request file, "" where there is no such file.
func (f *folder) requestID(name string) (string, error) {
	b, _, err := f.place.read(name, MaxRequest)
	var foreign *foreignError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &foreign) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the request again: %w", err)
	}
	r, err := ParseRequest(b)
	if err != nil {
		return "", fmt.Errorf("the request is being written again: %w", err)
	}
	return r.ID, nil
}

// retire removes a request that was answered, and no other: it is taken out of
// the way first, and put back if it is none of that id.
func (f *folder) retire(name, id string) error {
	taken := name + takenSuffix
	if err := f.place.rename(name, taken); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove the request: %w", err)
	}
	f.step("taken")
	return f.settle(name, taken, id)
}

// takenSuffix is behind the name of a request that is being removed.
const takenSuffix = ".taken"

// settle ends what retire began.
func (f *folder) settle(name, taken, id string) error {
	found, err := f.requestID(taken)
	if err != nil || found != id {
		if err := f.place.putBack(taken, name); err != nil {
			return fmt.Errorf("put a newer request back: %w", err)
		}
	}
	if err := f.place.remove(taken); err != nil {
		return fmt.Errorf("remove the request: %w", err)
	}
	f.step("removed")
	return f.place.sync()
}

// idOf is the request_id of a JSON object, "" where there is none.
func idOf(b []byte) string {
	var field map[string]json.RawMessage
	if json.Unmarshal(b, &field) != nil {
		return ""
	}
	id, _ := textOf(field["request_id"])
	return id
}

// recover ends what a bridge began that was killed: it publishes answers that
// were given, and removes what was left of others.
func (f *folder) recover() error {
	names, err := f.place.names(maxLeft, func(name string) bool {
		return strings.HasSuffix(name, takenSuffix) || waitingName.MatchString(name)
	}, nil)
	if err != nil {
		return err
	}
	entries := f.journal.waiting()
	for _, name := range names {
		if request, ok := strings.CutSuffix(name, takenSuffix); ok {
			err = f.recoverTaken(request, name)
		} else if e, known := entries[name]; !known {
			err = f.place.remove(name)
		} else if e.Answered != 0 {
			err = f.publish(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recoverTaken removes a request that was answered, and puts another back.
func (f *folder) recoverTaken(request, taken string) error {
	if _, ok := ResponseName(request); !ok {
		return nil // not ours
	}
	id, err := f.requestID(taken)
	if e, known := f.journal.get(id); err != nil || !known || e.Answered == 0 {
		id = "" // nobody's: it is put back
	}
	return f.settle(request, taken, id)
}
