// Templates and the code interpreter, by the unmodified SDKs. Added to the rows of suite.mjs, which gives check().
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

const url = process.env.E2B_API_URL
const key = { 'X-API-Key': process.env.E2B_API_KEY }

async function ask(method, target, body, headers = key) {
  const answer = await fetch(url + target, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) }
}

export async function templates({ check, create, sdk }) {
  const { Sandbox, Template, BuildError, waitForFile, waitForTimeout, waitForURL } = sdk
  const unique = Math.random().toString(36).slice(2, 8)
  const name = (word) => `${word}-${unique}`
  const context = mkdtempSync(path.join(tmpdir(), 'berth-context-'))
  mkdirSync(path.join(context, 'app/sub'), { recursive: true })
  writeFileSync(path.join(context, 'app/main.txt'), 'main')
  writeFileSync(path.join(context, 'app/sub/deep.txt'), 'deep')
  writeFileSync(path.join(context, 'app/.hidden'), 'hidden')
  symlinkSync('main.txt', path.join(context, 'app/link'))
  writeFileSync(path.join(context, 'one.sh'), '#!/bin/sh\necho one\n', { mode: 0o755 })
  writeFileSync(path.join(context, 'a.cfg'), 'a')
  writeFileSync(path.join(context, 'b.cfg'), 'b')
  const empty = () => Template({ fileContextPath: context })

  await check('templates', 'build with RUN, ENV, WORKDIR; create from it', async () => {
    const logs = []
    const template = empty()
      .setEnvs({ GREETING: 'hello', MORE: '$GREETING world' })
      .setWorkdir('/home/user/work')
      .runCmd('echo "$MORE" > made.txt')
      .runCmd(['echo printed', 'echo complained >&2'])
    const built = await Template.build(template, name('steps'), { onBuildLogs: (line) => logs.push(line) })
    assert.match(built.buildId, /^[0-9a-f-]{36}$/)
    const told = logs.map((line) => line.message).join('\n')
    assert.match(told, /\[builder 4\/4\] \[stdout\]: printed/)
    assert.match(told, /\[stderr\]: complained/)
    const one = await create(name('steps'))
    assert.equal(await one.files.read('/home/user/work/made.txt'), 'hello world\n')
    assert.equal((await one.commands.run('echo $GREETING; pwd')).stdout, 'hello\n/home/user/work\n')
    const info = await one.getInfo()
    assert.equal(info.templateId, built.templateId)
    assert.equal(info.name, name('steps'))
    const other = await create(name('steps'))
    await one.commands.run('echo mine > made.txt')
    assert.equal(await other.files.read('/home/user/work/made.txt'), 'hello world\n')
    await one.kill()
    await other.kill()
  })
  await check('templates', 'build with COPY of files, directories and patterns', async () => {
    const template = empty()
      .copy('app', '/home/user/app')
      .copy('one.sh', '/home/user/bin/')
      .copy('one.sh', '/home/user/renamed.sh', { mode: 0o700 })
      .copy('*.cfg', 'conf/')
      .runCmd('sh /home/user/bin/one.sh > /home/user/ran')
    await Template.build(template, name('copy'))
    // What was uploaded once is not uploaded again.
    const logs = []
    await Template.build(template, name('copy'), { onBuildLogs: (line) => logs.push(line.message) })
    assert.ok(logs.some((line) => line.includes('already cached')))
    const one = await create(name('copy'))
    const shown = await one.commands.run(
      'cat app/main.txt app/sub/deep.txt app/.hidden app/link ran; stat -c %U:%G:%a app/main.txt renamed.sh; ls /home/user/conf/?.cfg'
    )
    assert.match(shown.stdout, /^maindeephiddenmainone\nuser:user:644\nuser:user:700\n\/home\/user\/conf\/a.cfg\n\/home\/user\/conf\/b.cfg\n$/)
    await one.kill()
  })
  await check('templates', 'a step that fails is named, and leaves no template', async () => {
    const template = empty().runCmd('true').runCmd('echo to be seen; exit 3')
    await assert.rejects(Template.build(template, name('fails')), (error) => {
      assert.ok(error instanceof BuildError)
      assert.match(error.message, /failed to run command 'echo to be seen; exit 3': .*exit code 3/)
      return true
    })
    const [listed] = (await ask('GET', '/templates')).body.filter((t) => t.aliases.includes(name('fails')))
    assert.equal(listed.buildStatus, 'error')
    const status = await ask('GET', `/templates/${listed.templateID}/builds/${listed.buildID}/status?logsOffset=0`)
    assert.equal(status.body.status, 'error')
    assert.equal(status.body.reason.step, '2')
    assert.ok(status.body.logEntries.some((line) => line.message.endsWith('[stdout]: to be seen')))
    await assert.rejects(Sandbox.create(name('fails')), /not found/)
    assert.equal((await ask('DELETE', `/templates/${listed.templateID}`)).status, 204)
    assert.equal(await Template.exists(name('fails')), false)
    await assert.rejects(
      Template.build(empty().runCmd('whoami', { user: 'nobody-here' }), name('fails')),
      /failed to run command 'whoami': command failed: unauthenticated: invalid username: 'nobody-here'/
    )
  })
  await check('templates', 'create with mcp: a gateway of the template is started, one that is missing is told', async () => {
    const metadata = { gateway: name('none') }
    await assert.rejects(Sandbox.create({ metadata, mcp: { exa: { apiKey: 'k' } } }), /Failed to start MCP gateway/)
    assert.deepEqual(await Sandbox.list({ query: { metadata } }).nextItems(), [])
    const program = "printf '#!/bin/sh\\necho \"$GATEWAY_ACCESS_TOKEN $*\" > /tmp/gateway\\n' > /usr/bin/mcp-gateway"
    await Template.build(empty().runCmd(`${program} && chmod 755 /usr/bin/mcp-gateway`, { user: 'root' }), name('gateway'))
    const one = await create(name('gateway'), { mcp: { exa: { apiKey: 'k' } } })
    const token = await one.getMcpToken()
    assert.equal((await one.commands.run('cat /tmp/gateway', { user: 'root' })).stdout, `${token} --config {"exa":{"apiKey":"k"}}\n`)
    await one.kill()
  })
  await check('templates', 'build from another template, in the background', async () => {
    const first = await Template.build(empty().setEnvs({ A: '1' }).runCmd('echo base > ~/base'), name('parent'))
    const build = await Template.buildInBackground(
      empty().fromTemplate(name('parent')).runCmd('cat ~/base > ~/child; sleep 0.3; echo $A >> ~/child'),
      name('child')
    )
    assert.notEqual(build.templateId, first.templateId)
    let seen = 0
    for (;;) {
      const status = await Template.getBuildStatus(build, { logsOffset: seen })
      seen += status.logEntries.length
      if (status.status === 'ready') break
      assert.notEqual(status.status, 'error', status.reason?.message)
    }
    const one = await create(name('child'))
    assert.equal(await one.files.read('/home/user/child'), 'base\n1\n')
    await one.kill()
  })
  await check('templates', 'a start command runs in every sandbox, and is ready', async () => {
    const template = empty()
      .runCmd('mkdir -p ~/site && echo served > ~/site/index.html')
      .setStartCmd('cd ~/site && exec python3 -m http.server 8123 --bind 127.0.0.1', waitForURL('http://127.0.0.1:8123/'))
    await Template.build(template, name('starts'))
    const one = await create(name('starts'))
    assert.equal((await one.commands.run('curl -s http://127.0.0.1:8123/')).stdout, 'served\n')
    await one.kill()
  })
  await check('templates', 'a start command that fails is a build that fails', async () => {
    for (const ready of [waitForURL('http://127.0.0.1:8123/'), waitForTimeout(5000)])
      await assert.rejects(
        Template.build(empty().setStartCmd('sleep 0.1; exit 7', ready), name('never')),
        (error) => error instanceof BuildError && /start command 'sleep 0.1; exit 7' failed: exit 7/.test(error.message)
      )
    // One that has done its work is none.
    await Template.build(empty().setStartCmd('touch /tmp/there', waitForFile('/tmp/there')), name('done'))
  })
  await check('templates', 'names, tags, exists, list, delete', async () => {
    assert.equal(await Template.exists(name('tags')), false)
    const v1 = await Template.build(empty().runCmd('echo 1 > ~/v'), name('tags'), { tags: ['v1', 'default'] })
    assert.equal(await Template.exists(name('tags')), true)
    assert.deepEqual(await Template.assignTags(`${name('tags')}:v1`, ['stable']), { buildId: v1.buildId, tags: ['stable'] })
    const v2 = await Template.build(empty().runCmd('echo 2 > ~/v'), name('tags'))
    const tags = Object.fromEntries((await Template.getTags(v2.templateId)).map((t) => [t.tag, t.buildId]))
    assert.deepEqual(tags, { default: v2.buildId, stable: v1.buildId, v1: v1.buildId })
    const old = await create(`${name('tags')}:stable`)
    const fresh = await create(name('tags'))
    assert.equal(await old.files.read('/home/user/v'), '1\n')
    assert.equal(await fresh.files.read('/home/user/v'), '2\n')
    await Template.removeTags(name('tags'), ['stable'])
    await assert.rejects(Sandbox.create(`${name('tags')}:stable`), /not found/)
    // Not while it is used.
    assert.equal((await ask('DELETE', `/templates/${v2.templateId}`)).status, 400)
    await old.kill()
    await fresh.kill()
    assert.equal((await ask('DELETE', `/templates/${v2.templateId}`)).status, 204)
    assert.equal(await Template.exists(name('tags')), false)
  })
  await check('templates', 'another tenant sees, uses and removes none', async () => {
    const built = await Template.build(empty().runCmd('true'), name('mine'))
    const apiKey = process.env.BERTH_OTHER_KEY
    assert.equal(await Template.exists(name('mine'), { apiKey }), false)
    await assert.rejects(Sandbox.create(name('mine'), { apiKey }), /not found/)
    await assert.rejects(Sandbox.create(built.templateId, { apiKey }), /not found/)
    const other = { 'X-API-Key': apiKey }
    assert.ok(!(await ask('GET', '/templates', undefined, other)).body.some((t) => t.templateID === built.templateId))
    for (const [method, target, body] of [
      ['GET', `/templates/${built.templateId}`],
      ['DELETE', `/templates/${built.templateId}`],
      ['GET', `/templates/${built.templateId}/tags`],
      ['GET', `/templates/${built.templateId}/builds/${built.buildId}/status`],
      ['GET', `/templates/${built.templateId}/files/${'0'.repeat(64)}`],
      ['POST', `/v2/templates/${built.templateId}/builds/${built.buildId}`, { steps: [] }],
      ['POST', '/templates/tags', { target: name('mine'), tags: ['x'] }],
    ])
      assert.equal((await ask(method, target, body, other)).status, 404, `${method} ${target}`)
  })
  await check('templates', 'what is wrong is refused', async () => {
    const made = (await ask('POST', '/v3/templates', { name: name('wrong') })).body
    const start = `/v2/templates/${made.templateID}/builds/${made.buildID}`
    for (const body of [
      { steps: [{ type: 'BOOM', args: ['x'] }] },
      { steps: [{ type: 'COPY', args: ['a', 'b'], filesHash: '../../etc/passwd' }] },
      { steps: [{ type: 'ENV', args: ['A'] }] },
      { steps: Array(1000).fill({ type: 'RUN', args: ['true'] }) },
      { fromImage: 'a', fromTemplate: 'b' },
      { fromImage: 'x', fromImageRegistry: { type: 'aws' } },
    ])
      assert.equal((await ask('POST', start, body)).status, 400, JSON.stringify(body).slice(0, 80))
    for (const bad of ['base', '', 'UP/../x', 'other/x', 'a b'])
      assert.ok([400, 403].includes((await ask('POST', '/v3/templates', { name: bad })).status), bad)
    const put = await fetch(`${url}/templates/upload?ticket=${'0'.repeat(48)}`, { method: 'PUT', body: 'x' })
    assert.equal(put.status, 403)
    // An archive that leads out of its place, and one that is none.
    const link = async (hash) => (await ask('GET', `/templates/${made.templateID}/files/${hash}`)).body.url
    const hash = 'e'.repeat(64)
    assert.equal((await fetch(await link(hash), { method: 'PUT', body: 'this is no archive' })).status, 200)
    assert.equal((await ask('POST', start, { steps: [{ type: 'COPY', args: ['.', '/home/user', '', ''], filesHash: hash }] })).status, 202)
    for (;;) {
      const { body } = await ask('GET', `/templates/${made.templateID}/builds/${made.buildID}/status`)
      if (body.status === 'building') continue
      assert.equal(body.status, 'error')
      assert.equal(body.reason.step, '1')
      break
    }
    assert.equal((await ask('POST', start, { steps: [] })).status, 409)
    assert.equal((await ask('DELETE', `/templates/${made.templateID}`)).status, 204)
  })
  for (const one of (await ask('GET', '/templates')).body)
    if (one.aliases[0].endsWith(unique)) await ask('DELETE', `/templates/${one.templateID}`)
  rmSync(context, { recursive: true })
}

/// The package has an SDK of its own inside.
export async function interpreter({ check, made }) {
  const { Sandbox } = await import('@e2b/code-interpreter')
  const sandbox = await Sandbox.create({ timeoutMs: 600_000, envs: { FROM: 'the sandbox' } })
  made.add(sandbox.sandboxId)
  await check('code interpreter', 'runCode: results, output, state', async () => {
    const out = []
    const run = await sandbox.runCode('x = 20\nprint("é")\nx + 1', { onStdout: (m) => out.push(m.line) })
    assert.equal(run.text, '21')
    assert.equal(run.results[0].isMainResult, true)
    assert.deepEqual(run.logs.stdout, ['é\n'])
    assert.deepEqual(out, ['é\n'])
    assert.equal((await sandbox.runCode('x')).text, '20')
    assert.equal((await sandbox.runCode('import os, sys\nprint("no", file=sys.stderr)\nos.environ["FROM"]')).text, 'the sandbox')
    assert.equal((await sandbox.runCode('"it\'s"')).text, "it's")
    assert.equal((await sandbox.runCode('["a"]')).text, "['a']")
    // As it stands in a program of the caller's.
    const indented = await sandbox.runCode(`
        if x == 20:
            z = 7

        z * 2
    `)
    assert.equal(indented.text, '14')
    assert.equal((await sandbox.runCode('    # a note\nif x:\n    z = 8\nz')).text, '8')
  })
  await check('code interpreter', 'runCode: errors with a traceback', async () => {
    const run = await sandbox.runCode('def f():\n    return 1 / 0\n\nf()')
    assert.equal(run.error.name, 'ZeroDivisionError')
    assert.equal(run.error.value, 'division by zero')
    assert.match(run.error.traceback, /line 2, in f[\s\S]*return 1 \/ 0/)
    assert.equal((await sandbox.runCode('def g(:')).error.name, 'SyntaxError')
  })
  await check('code interpreter', 'runCode: output as it comes, subprocesses, envs', async () => {
    // The code goes on when its first line has been seen here.
    const seen = []
    await sandbox.runCode(
      'import os, time\nprint("a")\nwhile not os.path.exists("/tmp/go"): time.sleep(0.01)\nprint("b")',
      {
        onStdout: async (message) => {
          seen.push(message.line)
          if (seen.length === 1) await sandbox.files.write('/tmp/go', '')
        },
      }
    )
    assert.deepEqual(seen, ['a\n', 'b\n'])
    const run = await sandbox.runCode('!echo $ONE-$FROM', { envs: { ONE: '1' } })
    assert.equal(run.logs.stdout.join(''), '1-the sandbox\n')
    assert.equal((await sandbox.runCode('os.environ.get("ONE")')).results.length, 0)
  })
  await check('code interpreter', 'runCode: html, png and other forms', async () => {
    const run = await sandbox.runCode(`
class Rich:
    def __repr__(self): return "rich"
    def _repr_html_(self): return "<b>rich</b>"
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_markdown_(self): return "**rich**"
    def _repr_json_(self): return {"a": [1]}
display(Rich())
Rich()`)
    assert.equal(run.results.length, 2)
    const [shown, main] = run.results
    assert.equal(shown.isMainResult, false)
    assert.equal(main.isMainResult, true)
    assert.equal(main.text, 'rich')
    assert.equal(main.html, '<b>rich</b>')
    assert.equal(main.png, Buffer.from('\x89PNG', 'latin1').toString('base64'))
    assert.equal(main.markdown, '**rich**')
    assert.deepEqual(main.json, { a: [1] })
    // JSON has no such number.
    const odd = await sandbox.runCode(`
class Odd:
    def __repr__(self): return "odd"
    def _repr_json_(self): return {"a": float("nan")}
Odd()`)
    assert.deepEqual([odd.error, odd.text, odd.results[0].json], [undefined, 'odd', undefined])
  })
  await check('code interpreter', 'contexts: create, list, restart, remove', async () => {
    const fresh = await Sandbox.create({ timeoutMs: 60_000 })
    made.add(fresh.sandboxId)
    const [first, ...others] = await fresh.listCodeContexts()
    assert.deepEqual([first.language, first.cwd], ['python', '/home/user'])
    assert.ok(others.every((c) => c.language === 'javascript' && c.cwd === '/home/user'))
    await fresh.restartCodeContext(first)
    assert.equal((await fresh.runCode('2 + 3', { context: first })).text, '5')
    await fresh.kill()
    const context = await sandbox.createCodeContext({ cwd: '/tmp' })
    assert.equal((await sandbox.runCode('import os; y = 5; os.getcwd()', { context })).text, '/tmp')
    assert.equal((await sandbox.runCode('y')).error.name, 'NameError')
    assert.ok((await sandbox.listCodeContexts()).some((c) => c.id === context.id && c.cwd === '/tmp'))
    await sandbox.restartCodeContext(context)
    assert.equal((await sandbox.runCode('y', { context })).error.name, 'NameError')
    await sandbox.removeCodeContext(context)
    assert.ok(!(await sandbox.listCodeContexts()).some((c) => c.id === context.id))
    await assert.rejects(sandbox.runCode('1', { context }))
  })
  await check('code interpreter', 'runCode: bash, and javascript where there is node', async () => {
    const bash = (code, more = {}) => sandbox.runCode(code, { language: 'bash', ...more })
    assert.deepEqual((await bash('n=3; cd /; echo "$FROM" $WHO', { envs: { WHO: "it's", FROM: 'here' } })).logs.stdout, ["here it's\n"])
    assert.deepEqual((await bash('echo $n $PWD "$FROM" ${WHO:-nobody}')).logs.stdout, ['3 / the sandbox nobody\n'])
    assert.equal((await bash('echo no >&2; (exit 4)')).error.value, '4')
    assert.equal((await bash('exit 5')).error.value, '5')
    assert.deepEqual((await bash('echo ${n:-new}')).logs.stdout, ['new\n'])
    await assert.rejects(bash('sleep 1000', { timeoutMs: 700 }))
    assert.deepEqual((await bash('echo free')).logs.stdout, ['free\n'])
    await assert.rejects(sandbox.runCode('1', { language: 'cobol' }), /400/)
    if ((await sandbox.commands.run('command -v node || true')).stdout === '') return
    const js = (code, more = {}) => sandbox.runCode(code, { language: 'js', ...more })
    assert.deepEqual((await js('const z = 41; console.log("é")')).logs.stdout, ['é\n'])
    assert.equal((await js('z + 1')).text, '42')
    assert.equal((await js('const f = async () => "said"\nawait f()')).text, 'said')
    assert.equal((await js('({ a: [z] })')).text, '{ a: [ 41 ] }')
    assert.equal((await js('process.env.FROM', { envs: { FROM: 'here' } })).text, 'here')
    assert.equal((await js('process.env.FROM + process.cwd()')).text, 'the sandbox/home/user')
    const wrong = (await js('nope()')).error
    assert.deepEqual([wrong.name, wrong.value], ['ReferenceError', 'nope is not defined'])
    assert.equal((await js('const = 1')).error.name, 'SyntaxError')
    assert.equal((await js('throw 5')).error.value, '5')
    await assert.rejects(js('for (;;) {}', { timeoutMs: 700 }))
    assert.equal((await js('1 + 1')).text, '2')
    assert.ok((await sandbox.listCodeContexts()).some((c) => c.language === 'javascript'))
    const context = await sandbox.createCodeContext({ language: 'javascript', cwd: '/tmp' })
    assert.equal((await sandbox.runCode('process.cwd()', { context })).text, '/tmp')
  })
  await check('code interpreter', 'a process that ends is told, and the next code runs', async () => {
    const run = await sandbox.runCode('import os; os._exit(9)')
    assert.equal(run.error.name, 'ContextEnded')
    assert.equal((await sandbox.runCode('1 + 1')).text, '2')
  })
  await check('code interpreter', 'a timeout ends the waiting, and the code', async () => {
    await assert.rejects(sandbox.runCode('import time\nwhile True: time.sleep(0.05)', { timeoutMs: 700 }))
    assert.equal((await sandbox.runCode('"free"')).text, 'free')
  })
  await check('code interpreter', 'createSnapshot, create from it, runCode', async () => {
    const { snapshotId } = await sandbox.createSnapshot()
    const twin = await Sandbox.create(snapshotId)
    made.add(twin.sandboxId)
    assert.equal((await twin.runCode('6 * 7')).text, '42')
    await twin.kill()
    await Sandbox.deleteSnapshot(snapshotId)
  })
  await check('code interpreter', 'without the token no code runs', async () => {
    const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49999', 'Content-Type': 'application/json' }
    for (const way of ['/execute', '/execute/', '//execute', '/%65xecute', '/execute?x=1']) {
      const answer = await fetch(url + way, { method: 'POST', headers, body: '{"code":"1"}' })
      assert.equal(answer.status, 401, way)
    }
  })
  await sandbox.kill()
}

/// The command line tool, without a terminal.
export async function cli({ check, create }) {
  const program = path.resolve('node_modules/@e2b/cli/dist/index.js')
  const e2b = async (...words) => {
    const child = spawn(process.execPath, [program, ...words], { stdio: ['ignore', 'pipe', 'pipe'] })
    let told = ''
    child.stdout.on('data', (piece) => (told += piece))
    child.stderr.on('data', (piece) => (told += piece))
    const code = await new Promise((done) => child.on('close', done))
    return { code, told }
  }
  const name = `cli-${Math.random().toString(36).slice(2, 8)}`
  await check('@e2b/cli', 'template create of a Dockerfile, list, delete; sandbox list', async () => {
    const context = mkdtempSync(path.join(tmpdir(), 'berth-context-'))
    writeFileSync(path.join(context, 'note.txt'), 'copied')
    writeFileSync(
      path.join(context, 'Dockerfile'),
      'FROM e2bdev/base\nUSER user\nENV WORD=said\nWORKDIR /home/user/made\nCOPY note.txt .\nRUN echo $WORD > word.txt\n'
    )
    const built = await e2b('template', 'create', name, '-p', context, '-d', 'Dockerfile')
    assert.equal(built.code, 0, built.told)
    const listed = await e2b('template', 'list', '-f', 'json')
    assert.equal(listed.code, 0, listed.told)
    assert.ok(JSON.parse(listed.told).some((t) => t.aliases?.includes(name) && t.buildStatus === 'ready'), listed.told)
    const one = await create(name)
    assert.equal((await one.commands.run('cat note.txt word.txt')).stdout, 'copiedsaid\n')
    const running = await e2b('sandbox', 'list', '-f', 'json')
    assert.ok(JSON.parse(running.told).some((s) => s.sandboxId === one.sandboxId), running.told)
    await one.kill()
    const removed = await e2b('template', 'delete', name, '-y')
    assert.equal(removed.code, 0, removed.told)
    assert.ok(!JSON.parse((await e2b('template', 'list', '-f', 'json')).told).some((t) => t.aliases?.includes(name)))
    rmSync(context, { recursive: true })
  })
  await check('@e2b/cli', 'sandbox exec, info, logs, metrics, kill', async () => {
    const one = await create()
    const id = one.sandboxId
    const ran = await e2b('sandbox', 'exec', id, '--', 'sh', '-c', 'echo inside; exit 3')
    assert.equal(ran.code, 3, ran.told)
    assert.match(ran.told, /inside/)
    const info = await e2b('sandbox', 'info', id, '-f', 'json')
    assert.equal(JSON.parse(info.told).sandboxId, id, info.told)
    const logs = await e2b('sandbox', 'logs', id, '--format', 'json')
    assert.equal(logs.code, 0, logs.told)
    assert.ok(logs.told.trim().split('\n').some((l) => JSON.parse(l).message === 'sandbox_created'), logs.told)
    const metrics = await e2b('sandbox', 'metrics', id, '--format', 'json')
    assert.equal(metrics.code, 0, metrics.told)
    const gone = await e2b('sandbox', 'kill', id)
    assert.equal(gone.code, 0, gone.told)
    assert.equal(await one.isRunning(), false)
  })
}
