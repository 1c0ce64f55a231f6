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
	{FieldAgent, "agent", "agent", "--agent"},
	{FieldTitle, "title", "title", "--title"},
	{FieldDir, "workingDir", "directory", "--dir"},
	{FieldModel, "model", "model", "--model"},
	{FieldThread, "threadId", "thread", "--resume"},
	{FieldResume, "resume", "resume", "--resume"},
	{FieldFork, "fork", "fork", "--fork"},
	{FieldMode, "mode", "mode", "--mode"},
	{FieldConfirm, "confirm", "confirm", "--mode"},
	{FieldLabels, "labels", "", "--label"},
	{FieldSchema, "outputSchema", "", "--output-schema"},
	{"skipGitRepoCheck", "skipGitRepoCheck", "skipGitRepoCheck", "--skip-git-repo-check"},
	{"live", "live", "live", "--live"},
	{"ask", "ask", "ask", "--no-ask"},
	{"keep", "keep", "keep", "--keep"},
	{"policy", "policy", "", "--policy"},
	{"force", "force", "", "--force"},
	{FieldAddDirs, "addDirs", "", "--add-dir"},
	{FieldNonInteractive, "nonInteractive", "", "--no-ask"},
	{FieldUnboxed, "externalSandbox", "", "--external-sandbox"},
	{FieldExtensions, "extensions", "", "--extension"},
	{FieldEnvPolicy, "envPolicy", "", "--env"},
	{FieldEnvAllow, "envAllowList", "", "--allow-env"},
	{FieldIdle, "idleTimeoutSec", "", "--idle-timeout"},
	{FieldHard, "timeoutSec", "timeout_seconds", "--timeout"},
	{FieldGit, "allow_destructive_git", "allow_destructive_git", "--allow-destructive-git"},
	{FieldGovernance, "governance_context", "", ""},
	{FieldContext, "context", "", ""},
	{FieldWebhook, "push_notification_config", "", ""},
	{FieldKey, "idempotency_key", "idempotency_key", ""},
	{FieldRun, "task_id", "run", ""},
	{FieldRef, "ref", "run", ""},
	{FieldEnvironment, "envId", "", ""},
	{FieldAttempts, "attempts", "", ""},
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
