package api

// Name is a field of a request in the words of each surface; "" where a surface does not have it. Errors
// name the field as the caller wrote it.
type Name struct {
	Field string // in this package, in its JSON and in [Error]
	Tool  string // in the v3.6 tools, REST and A2A, which also take it in the other one of camelCase and snake_case
	Agent string // in the tools for agents of every kind
	Flag  string // of `linesman submit`
}

// Names are the fields of requests whose words differ between surfaces, and all fields of a task.
var Names = []Name{
	{FieldPrompt, "task", "prompt", "PROMPT"},
	{"agent", "agent", "agent", "--agent"},
	{"title", "title", "title", "--title"},
	{FieldDir, "workingDir", "directory", "--dir"},
	{"model", "model", "model", "--model"},
	{FieldThread, "threadId", "thread", "--resume"},
	{FieldResume, "resume", "resume", "--resume"},
	{FieldFork, "fork", "fork", "--fork"},
	{"mode", "mode", "mode", "--mode"},
	{"confirm", "confirm", "confirm", "--mode"},
	{FieldLabels, "labels", "", "--label"},
	{"outputSchema", "outputSchema", "", "--output-schema"},
	{"skipGitRepoCheck", "skipGitRepoCheck", "skipGitRepoCheck", "--skip-git-repo-check"},
	{"live", "live", "live", "--live"},
	{"ask", "ask", "ask", "--no-ask"},
	{"keep", "keep", "keep", "--keep"},
	{"policy", "policy", "", "--policy"},
	{"force", "force", "", "--force"},
	{"addDirs", "addDirs", "", "--add-dir"},
	{"nonInteractive", "nonInteractive", "", "--no-ask"},
	{"externalSandbox", "externalSandbox", "", "--external-sandbox"},
	{"extensions", "extensions", "", "--extension"},
	{"env.policy", "envPolicy", "", "--env"},
	{"env.allow", "envAllowList", "", "--allow-env"},
	{"idleTimeoutSec", "idleTimeoutSec", "", "--idle-timeout"},
	{"timeoutSec", "timeoutSec", "timeout_seconds", "--timeout"},
	{"allowDestructiveGit", "allow_destructive_git", "allow_destructive_git", "--allow-destructive-git"},
	{"governanceContext", "governance_context", "", ""},
	{"context", "context", "", ""},
	{FieldWebhook, "push_notification_config", "", ""},
	{FieldKey, "idempotency_key", "idempotency_key", ""},
	{FieldRun, "task_id", "run", ""},
	{FieldRef, "ref", "run", ""},
	{"environment", "envId", "", ""},
	{"attempts", "attempts", "", ""},
}

// NamesOf returns the words of one surface by the names of the fields, for [Error.Rename].
func NamesOf(of func(Name) string) map[string]string {
	names := map[string]string{}
	for _, n := range Names {
		if to := of(n); to != "" {
			names[n.Field] = to
		}
	}
	return names
}
