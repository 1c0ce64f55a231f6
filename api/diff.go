package api

import "github.com/linesman/linesman/runs"

// Diff is what a run changed in its directory: the difference between the moment before its agent
// started and the one after it ended. Changes by others at that time are included.
type Diff struct {
	Run      string          `json:"run"`
	Reason   DiffReason      `json:"reason,omitempty"`   // why there is no diff; absent: there is one
	Why      string          `json:"why,omitempty"`      // the reason, for people
	Changes  *Changes        `json:"changes,omitempty"`  // of all files; absent without a diff
	Files    []runs.DiffFile `json:"files"`              // the first changed files, at most 200
	Unlisted int64           `json:"unlisted,omitempty"` // changed files that are not listed
	// Unified diff as of git, redacted; at most 256 KiB, of a file at most 64 KiB.
	Patch     string `json:"patch,omitempty"`
	Truncated bool   `json:"truncated,omitempty"` // the patch lacks some of the changes
}

// Changes counts what a run changed in its directory.
type Changes struct {
	Files   int64          `json:"files"`            // changed files
	Added   int64          `json:"added"`            // lines
	Removed int64          `json:"removed"`          // lines
	Reason  runs.NoChanges `json:"reason,omitempty"` // why the numbers are unknown, and 0
}

// DiffReason is why there is no diff: a value of [runs.NoChanges] or one of these.
type DiffReason string

// The reasons beside those of a worker.
const (
	DiffNoWorkTree DiffReason = "no_work_tree" // the directory was in no git work tree
	DiffNoProcess  DiffReason = "no_process"   // linesman did not start an agent for the run
	DiffNotStarted DiffReason = "not_started"  // the agent did not start
	DiffLost       DiffReason = "lost"         // the worker of the run was lost before it could read the changes
	DiffExpired    DiffReason = "expired"      // RAW no longer has it
)

// Whys says for people what each [DiffReason] means.
var Whys = map[DiffReason]string{
	DiffNoWorkTree:                  "the directory of the run is in no git work tree",
	DiffNoProcess:                   "linesman did not start the agent of this run, so it has no snapshot of before",
	DiffNotStarted:                  "the agent did not start",
	DiffLost:                        "the worker of the run was lost before it could read the changes",
	DiffExpired:                     "the raw log of the run has expired (raw.max_age)",
	DiffReason(runs.DiffOff):        "the setting diff of the worker is off",
	DiffReason(runs.NoGit):          "the worker has no program git",
	DiffReason(runs.TooLarge):       "more than 100,000 files or 256 MiB had to be read that git does not know yet",
	DiffReason(runs.TooSlow):        "it took too long to read the directory",
	DiffReason(runs.SnapshotFailed): "git could not read the directory or its repository; see the log of the worker",
}
