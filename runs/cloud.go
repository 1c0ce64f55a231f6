package runs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linesman/linesman/bounds"
)

// Cloud describes a task that runs in a cloud service. The JSON of each string
// has at most MaxCloudText bytes.
type Cloud struct {
	ID           string `json:"id,omitempty"`          // assigned by the service, see [CheckCloudTask]
	URL          string `json:"url,omitempty"`         // web page of the task, https
	Environment  string `json:"environment,omitempty"` // id or label, as requested
	Status       string `json:"status,omitempty"`      // one of the Cloud constants
	Attempts     int    `json:"attempts,omitempty"`
	Applied      bool   `json:"applied,omitempty"` // the diff was applied
	FilesChanged int    `json:"files_changed,omitempty"`
	Added        int    `json:"lines_added,omitempty"`
	Removed      int    `json:"lines_removed,omitempty"`
}

// The statuses of a cloud task. A task that is ready or applied has completed; a
// task in error has failed.
const (
	CloudPending = "pending"
	CloudReady   = "ready"
	CloudApplied = "applied"
	CloudError   = "error"
)

// Limits of a [Cloud].
const (
	maxCloudTask = 128
	MaxCloudText = 512 // bytes of JSON
)

// CheckCloudTask returns an error unless id is a cloud task id: 1 to
// maxCloudTask letters, digits, '-' and '_'. The first character is a letter or
// a digit, so that a command line does not take the id as an option.
func CheckCloudTask(id string) error {
	if !consists(id, maxCloudTask, isIDChar) || id[0] == '-' || id[0] == '_' {
		return fmt.Errorf("cloud task: must have 1 to %d letters, digits, '-' and '_', the first a letter or a digit",
			maxCloudTask)
	}
	return nil
}

// KnownCloudStatus reports whether status is one of the Cloud constants.
func KnownCloudStatus(status string) bool {
	return slices.Contains([]string{CloudPending, CloudReady, CloudApplied, CloudError}, status)
}

// Merge returns a copy of c with the fields of update. Empty fields of update
// change nothing. The id, URL and environment never change after they are set,
// because a task has only one of each. Values over a limit are ignored. Both c
// and update may be nil.
func (c *Cloud) Merge(update *Cloud) *Cloud {
	if update == nil {
		return c
	}
	var next Cloud
	if c != nil {
		next = *c
	}
	if next.ID == "" && CheckCloudTask(update.ID) == nil {
		next.ID = update.ID
	}
	if next.URL == "" && strings.HasPrefix(update.URL, "https://") && validCloudText(update.URL) {
		next.URL = update.URL
	}
	if next.Environment == "" && validCloudText(update.Environment) {
		next.Environment = update.Environment
	}
	if KnownCloudStatus(update.Status) {
		next.Status = update.Status
		next.Applied = next.Applied || update.Status == CloudApplied
	}
	for field, n := range map[*int]int{
		&next.Attempts: update.Attempts, &next.FilesChanged: update.FilesChanged,
		&next.Added: update.Added, &next.Removed: update.Removed,
	} {
		if n > 0 {
			*field = n
		}
	}
	return &next
}

func validCloudText(s string) bool { return bounds.StringSize(s) <= MaxCloudText && printable(s) }
