package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Labels are the labels of a run as one text: the query of a URL, sorted by key. Equal
// labels have equal texts; "" is none.
type Labels string

// LabelCaller is the label of a task whose submitter has a token of its own. Its value is
// the name of the token, and only linesman sets it. It does not count as one of the
// labels of the submitter, see [Labels.Check].
const LabelCaller = "linesman.caller"

// LabelProfile is the label of a task that was prompted by the Agent Protocol for NATS, with the name of the profile.
// Only linesman sets it, and it does not count, either.
const LabelProfile = "linesman.profile"

// LabelContext is the label of a task that its submitter has put into a context of its own. Its value is the
// submitter's name of that context, 1 to 256 characters of printable ASCII, and only linesman sets it. It does not
// count as one of the labels of the submitter.
const LabelContext = "linesman.context"

// LabelKeep is the label of a task with [LabelProfile] whose run is kept for further prompts. Only linesman sets it,
// and it does not count, either.
const LabelKeep = "linesman.keep"

// LabelsOf returns labels as one text.
func LabelsOf(labels map[string]string) Labels {
	if len(labels) == 0 {
		return ""
	}
	q := url.Values{}
	for k, v := range labels {
		q.Set(k, v)
	}
	return Labels(q.Encode())
}

// Limits of the labels of a run.
const (
	maxLabels     = 16
	maxLabelKey   = 64  // bytes
	maxLabelValue = 256 // bytes
)

// Check returns an error for every label that is not valid. Keys and
// values are UTF-8 without control characters. The errors never quote a value.
func (l Labels) Check() error {
	var errs []error
	labels := l.Map()
	if n := counted(labels); n > maxLabels {
		errs = append(errs, fmt.Errorf("labels: at most %d, got %d", maxLabels, n))
	}
	for k, v := range labels {
		if k == "" || len(k) > maxLabelKey || !printable(k) {
			errs = append(errs, fmt.Errorf("label: a key must have 1 to %d bytes of printable text,"+
				" one of %d bytes has not", maxLabelKey, len(k)))
			continue
		}
		if !printable(v) {
			errs = append(errs, fmt.Errorf("label %q: control characters and invalid UTF-8 are not allowed", k))
		}
		if len(v) > maxLabelValue {
			errs = append(errs, fmt.Errorf("label %q: at most %d bytes, got %d", k, maxLabelValue, len(v)))
		}
	}
	return errors.Join(errs...)
}

// counted returns how many labels there are without those that only linesman sets.
func counted(labels map[string]string) int {
	n := len(labels)
	for _, own := range []string{LabelCaller, LabelProfile, LabelContext, LabelKeep} {
		if labels[own] != "" {
			n--
		}
	}
	return n
}

// With returns the labels and one more, in place of one with the same key.
func (l Labels) With(key, value string) Labels {
	labels := l.Map()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return LabelsOf(labels)
}

// Has reports whether there is a label with this key and this value.
func (l Labels) Has(key, value string) bool {
	want := url.QueryEscape(key) + "=" + url.QueryEscape(value)
	for rest, more := string(l), l != ""; more; {
		var one string
		one, rest, more = strings.Cut(rest, "&")
		if one == want {
			return true
		}
	}
	return false
}

// Context returns the context of a run for its caller: the caller's own name of it, else its thread, "" if that is
// not known.
func (l Labels) Context(thread string) string { return cmp.Or(l.Value(LabelContext), thread) }

// Value returns the value of the label with this key, "" if there is none.
func (l Labels) Value(key string) string {
	want := url.QueryEscape(key) + "="
	for rest, more := string(l), l != ""; more; {
		var one string
		one, rest, more = strings.Cut(rest, "&")
		if value, ok := strings.CutPrefix(one, want); ok {
			text, _ := url.QueryUnescape(value) // it was made by LabelsOf
			return text
		}
	}
	return ""
}

// Map returns the labels, nil if there are none.
func (l Labels) Map() map[string]string {
	if l == "" {
		return nil
	}
	q, err := url.ParseQuery(string(l))
	if err != nil {
		return nil
	}
	labels := make(map[string]string, len(q))
	for k := range q {
		labels[k] = q.Get(k)
	}
	return labels
}

// MarshalJSON writes an object.
func (l Labels) MarshalJSON() ([]byte, error) { return json.Marshal(l.Map()) }

// UnmarshalJSON reads an object of texts.
func (l *Labels) UnmarshalJSON(b []byte) error {
	var labels map[string]string
	err := json.Unmarshal(b, &labels)
	*l = LabelsOf(labels)
	return err
}
