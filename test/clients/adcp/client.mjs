// An AdCP client by the SDK of the protocol: node client.mjs PROTOCOL URL TOKEN DIRECTORY
// It tells what it wants of the test by lines on stdout, and waits for a line on stdin: "restart" the server, "release"
// the agent that holds.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import { ADCPMultiAgentClient } from '@adcp/sdk'

const [protocol, url, token, directory] = process.argv.slice(2)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const please = async (what) => {
  console.log(what)
  await lines.next()
}
const connect = (validation) =>
  new ADCPMultiAgentClient(
    [{ id: 'linesman', name: 'linesman', agent_uri: url, protocol, auth_token: token }],
    { validation, workingTimeout: 60_000 },
  ).agent('linesman')
const task = (what, more) => ({ task: what, workingDir: directory, skipGitRepoCheck: true, idempotency_key: randomUUID(), ...more })
const dataOf = (result) => result.data?.structuredContent ?? result.data

// Its capabilities, as the client checks them by default and strictly: it is an agent of AdCP 3.
for (const validation of [undefined, { requests: 'strict', responses: 'strict' }]) {
  const got = await connect(validation).getCapabilities()
  assert.equal(got.version, 'v3', JSON.stringify(got))
  assert.deepEqual(got.majorVersions, [3])
}

// The list of protocols is empty, which the schema does not allow, so only a lenient client takes the answer itself.
const told = await connect({ responses: 'warn' }).executeTask('get_adcp_capabilities', {})
assert.equal(told.status, 'completed', JSON.stringify(told))
const capabilities = dataOf(told)
assert.deepEqual(capabilities.adcp.supported_versions, ['3.0', '3.1'])
assert.deepEqual(capabilities.supported_protocols, [])
assert.ok(capabilities.ext.linesman.agents.claude_code.skills.includes('claude-run'))

const client = connect({ requests: 'strict', responses: 'strict' })

// A run that completes: submitted, tracked, waited for.
const order = task('say hello', { context: { trace: '7' }, governance_context: 'gov-1', context_id: 'campaign 7' })
const first = await client.executeTask('codex-run', order)
assert.equal(first.status, 'submitted', JSON.stringify(first))
assert.ok(first.submitted.taskId.startsWith('T-local-'), JSON.stringify(first))
const state = await first.submitted.track()
assert.equal(state.taskId, first.submitted.taskId)
assert.equal(state.taskType, 'codex-run')
const done = await first.submitted.waitForCompletion(100)
assert.equal(done.success, true, JSON.stringify(done))
assert.equal(done.status, 'completed')
assert.equal(done.data.status, 'completed')
assert.equal(done.data.context_id, 'campaign 7')
assert.match(JSON.stringify(done.data), /Hello\. Nothing to do\./)

// The same request again is answered by the first outcome, another one with its key is a conflict.
const again = await client.executeTask('codex-run', order)
assert.equal(again.status, 'submitted', JSON.stringify(again))
assert.equal(again.submitted.taskId, first.submitted.taskId)
assert.match(JSON.stringify(again), /"replayed":true/)
const clash = await client.executeTask('codex-run', { ...order, task: 'say more' })
assert.equal(clash.success, false)
assert.equal(clash.adcpError?.code, 'IDEMPOTENCY_CONFLICT', JSON.stringify(clash))

// A refusal has its reason.
const refused = await client.executeTask('codex-run', task('go', { mode: 'everything' }))
assert.equal(refused.success, false)
assert.equal(refused.adcpError?.code, 'VALIDATION_ERROR', JSON.stringify(refused))
assert.equal(refused.adcpError.field, 'mode')
const pinned = await client.executeTask('codex-status', { adcp_version: '2.5' })
assert.equal(pinned.adcpError?.code, 'VERSION_UNSUPPORTED', JSON.stringify(pinned))

// A run that fails, and the responder is another one before it is waited for.
const second = await client.executeTask('codex-run', task('hold and fail'))
assert.equal(second.status, 'submitted', JSON.stringify(second))
await please('restart')
assert.equal((await second.submitted.track()).taskId, second.submitted.taskId)
await please('release')
const failed = await second.submitted.waitForCompletion(100)
assert.equal(failed.success, false)
assert.equal(failed.adcpError?.code, 'TOOL_ERROR', JSON.stringify(failed))

// A run that asks people ends the wait.
const third = await client.executeTask('parrot-run', task('Say hi.', { live: true }))
assert.equal(third.status, 'submitted', JSON.stringify(third))
const asks = await third.submitted.waitForCompletion(100)
assert.equal(asks.status, 'input-required', JSON.stringify(asks))
const ended = await client.executeTask('codex-cancel', { task_id: third.submitted.taskId, idempotency_key: randomUUID() })
assert.equal(ended.adcpError, undefined, JSON.stringify(ended))

// A run that nobody knows is not waited for.
const lost = await client.executeTask('get_task_status', { task_id: 'T-local-nothing' })
assert.equal(lost.adcpError?.code, 'REFERENCE_NOT_FOUND', JSON.stringify(lost))
console.log('done')
process.exit(0)
