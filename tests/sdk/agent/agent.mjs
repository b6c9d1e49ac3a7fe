// The unmodified sandbox-agent with its E2B provider, by name and over TLS. What it fetches from the network while a
// sandbox is made (its own install script, two agents) cannot be had in a sandbox without a network: the template
// brings the same program, as npm has it, and answers for the rest.
import assert from 'node:assert/strict'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Sandbox, Template } from 'e2b'
import { SandboxAgent } from 'sandbox-agent'
import { e2b } from 'sandbox-agent/e2b'

/// Asks until it holds, for as long as the test lasts.
async function until(question) {
  while (!(await question())) await new Promise((done) => setTimeout(done, 20))
}

const binary = createRequire(import.meta.url).resolve('@sandbox-agent/cli-linux-x64/bin/sandbox-agent')
const context = mkdtempSync(path.join(tmpdir(), 'berth-agent-'))
copyFileSync(binary, path.join(context, 'sandbox-agent'))
writeFileSync(path.join(context, 'agent.sh'), `#!/bin/sh
# Agents come from the network, which is not there.
[ "$1" != install-agent ] || exit 0
exec /opt/sandbox-agent "$@"
`)
writeFileSync(path.join(context, 'curl.sh'), `#!/bin/sh
# What an install script would do has been done.
echo 'test -x /opt/sandbox-agent'
`)
// In the place of the one it brings, which gives back every line as it came: it answers as an agent would.
writeFileSync(path.join(context, 'talker.py'), `#!/usr/bin/env python3
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "method" not in asked or "id" not in asked: continue
    params, result = asked.get("params", {}), {}
    if asked["method"] == "initialize": result = {"protocolVersion": params["protocolVersion"], "agentCapabilities": {}}
    if asked["method"] == "session/new": result = {"sessionId": "one"}
    if asked["method"] == "session/prompt":
        text = params["prompt"][0]["text"].upper()
        send(method="session/update", params={"sessionId": "one", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}})
        result = {"stopReason": "end_turn"}
    send(id=asked["id"], result=result)
`)
const name = `sandbox-agent-${Math.random().toString(36).slice(2, 8)}`
const place = '/usr/local/bin' // where it looks first
const template = Template({ fileContextPath: context })
  .fromTemplate('base')
  .copy('sandbox-agent', '/opt/sandbox-agent', { user: 'root', mode: 0o755 })
  .copy('agent.sh', `${place}/sandbox-agent`, { user: 'root', mode: 0o755 })
  .copy('curl.sh', `${place}/curl`, { user: 'root', mode: 0o755 })
  .copy('talker.py', '/home/user/.local/share/sandbox-agent/bin/agent_processes/mock-acp', { mode: 0o755 })
await Template.build(template, name)
rmSync(context, { recursive: true })

const provider = e2b({ template: name })
const client = await SandboxAgent.start({ sandbox: provider })
const id = client.sandboxId
try {
  assert.match(id, /^e2b\/i[a-z0-9]{20}$/)
  assert.equal((await client.getHealth()).status, 'ok')
  console.log('ok start: made, and its server answers by name')

  const told = await client.runProcess({ command: 'sh', args: ['-c', 'echo "$E2B_SANDBOX"; pwd; exit 3'] })
  assert.deepEqual([told.exitCode, told.stdout.split('\n')[0]], [3, 'true'])
  await client.writeFsFile({ path: '/home/user/note.txt' }, 'by the agent')
  assert.equal(new TextDecoder().decode(await client.readFsFile({ path: '/home/user/note.txt' })), 'by the agent')
  console.log('ok processes and files')

  const seen = []
  const session = await client.createSession({ agent: 'mock' })
  session.onEvent((event) => seen.push(event))
  const answer = await session.prompt([{ type: 'text', text: 'hello there' }])
  assert.equal(answer.stopReason, 'end_turn')
  await until(() => JSON.stringify(seen).includes('HELLO THERE'))
  console.log('ok a session: a prompt, and its events by a stream')

  const lines = []
  const slow = await client.createProcess({ command: 'sh', args: ['-c', 'for i in 1 2 3; do echo line $i; sleep 0.1; done; sleep 1000'] })
  const logs = await client.followProcessLogs(slow.id, (entry) => lines.push(Buffer.from(entry.data, entry.encoding === 'base64' ? 'base64' : 'utf8').toString()))
  await until(() => lines.join('').includes('line 3'))
  logs.close()
  let shown = ''
  const shell = await client.createProcess({ command: 'bash', args: ['-i'], tty: true, interactive: true })
  const terminal = client.connectProcessTerminal(shell.id)
  terminal.onData((bytes) => (shown += Buffer.from(bytes).toString()))
  await new Promise((done) => terminal.onReady(done))
  terminal.sendInput('echo by-$((40 + 2))\n')
  await until(() => shown.includes('by-42'))
  terminal.close()
  console.log('ok output that is followed, and a terminal by WebSocket')

  if (process.env.BERTH_AGENT_FREEZES === '1') {
    await client.pauseSandbox()
    const again = await SandboxAgent.start({ sandbox: provider, sandboxId: id })
    assert.equal(new TextDecoder().decode(await again.readFsFile({ path: '/home/user/note.txt' })), 'by the agent')
    console.log('ok pause, and another client that takes it up')
    await again.dispose()
  }
} finally {
  await Sandbox.kill(id.slice('e2b/'.length))
}
await assert.rejects(SandboxAgent.start({ sandbox: provider, sandboxId: id }), (error) => error.name === 'SandboxDestroyedError' || /destroyed|not found/i.test(error.message))
console.log('ok a killed one is told as destroyed')
process.exit(0)
