// Every call of the E2B SDK that this server answers, made by the unmodified SDK. Usage: node suite.mjs PACKAGE
// RESULTS. The server is told by E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY; a key of another tenant by
// BERTH_OTHER_KEY. A check that fails is a line in RESULTS and the exit code.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import { cli, interpreter, templates } from './templates.mjs'
import { metadata, volumes } from './volumes.mjs'

const [, , packageName, resultsFile] = process.argv
const sdk = await import(packageName)
const { Sandbox, CommandExitError, NotFoundError, TimeoutError, AuthenticationError } = sdk
const only = process.env.BERTH_SDK_ONLY

const results = []
const made = new Set()

/// One row of the table: an area, the call, and what must hold.
async function check(area, call, work) {
  const name = `${area}: ${call}`
  if (only && !name.includes(only)) return
  const before = Date.now()
  try {
    await withDeadline(work(), 60_000)
    results.push({ area, call, ok: true })
    console.log(`ok ${name} (${Date.now() - before} ms)`)
  } catch (error) {
    const why = `${error?.message ?? ''}\n${error?.stack ?? error}`
    results.push({ area, call, ok: false, why })
    console.log(`FAILED ${name}\n  ${why.replaceAll('\n', '\n  ')}`)
  }
}

function withDeadline(promise, ms) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${ms} ms`)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

async function create(...args) {
  const sandbox = await Sandbox.create(...args)
  made.add(sandbox.sandboxId)
  return sandbox
}

/// Asks until it holds, for as long as a check lasts.
async function until(question) {
  for (;;) {
    const answer = await question()
    if (answer) return answer
    await new Promise((done) => setTimeout(done, 50))
  }
}

const has = (object, name) => typeof object?.[name] === 'function'
const sandbox = await create({ timeoutMs: 600_000 })

// ---------------------------------------------------------------- sandboxes
await check('sandboxes', 'create, isRunning, kill', async () => {
  const one = await create()
  assert.match(one.sandboxId, /^i[a-z0-9]{20}$/)
  assert.equal(await one.isRunning(), true)
  assert.equal(await one.kill(), true)
  assert.equal(await one.isRunning(), false)
  assert.equal(await Sandbox.kill(one.sandboxId), false)
})
await check('sandboxes', 'create with metadata, envs and timeout; getInfo', async () => {
  const one = await create({ metadata: { who: 'me & you', 'k=1': 'é' }, envs: { A: 'b' }, timeoutMs: 61_500 })
  const info = await one.getInfo()
  assert.equal(info.sandboxId, one.sandboxId)
  assert.deepEqual(info.metadata, { who: 'me & you', 'k=1': 'é' })
  assert.equal(info.state, 'running')
  const seconds = (info.endAt - info.startedAt) / 1000
  assert.ok(seconds > 60 && seconds < 64, `${seconds} s`)
  assert.equal((await one.commands.run('echo $A')).stdout, 'b\n')
  await one.kill()
})
await check('sandboxes', 'create from an unknown template says so', async () => {
  await assert.rejects(Sandbox.create('no-such-template'), /404: template 'no-such-template' not found/)
})
await check('sandboxes', 'list with metadata and paging', async () => {
  const tag = `list ${Math.random()}`
  const all = []
  for (let i = 0; i < 3; i++) all.push(await create({ metadata: { tag, n: `${i}` } }))
  const pages = Sandbox.list({ limit: 2, query: { metadata: { tag } } })
  const first = await pages.nextItems()
  assert.equal(first.length, 2)
  assert.equal(pages.hasNext, true)
  const second = await pages.nextItems()
  assert.equal(second.length, 1)
  assert.equal(pages.hasNext, false)
  const found = [...first, ...second].map((s) => s.sandboxId)
  assert.deepEqual(found, all.map((s) => s.sandboxId).reverse())
  const none = await Sandbox.list({ query: { metadata: { tag, n: '7' } } }).nextItems()
  assert.equal(none.length, 0)
  for (const one of all) await one.kill()
})
await check('sandboxes', 'connect to a running one', async () => {
  await sandbox.files.write('/tmp/connect', 'same')
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal(again.sandboxId, sandbox.sandboxId)
  assert.equal(await again.files.read('/tmp/connect'), 'same')
})
await check('sandboxes', 'connect to an unknown one is NotFound', async () => {
  await assert.rejects(Sandbox.connect('i00000000000000000000'), NotFoundError)
})
await check('sandboxes', 'setTimeout: it ends when its time is over', async () => {
  const one = await create()
  await one.setTimeout(1000)
  await until(async () => !(await one.isRunning()))
  await assert.rejects(one.commands.run('true'), NotFoundError)
  assert.equal(await one.kill(), false)
})
await check('sandboxes', 'pause keeps memory, connect resumes', async () => {
  const one = await create()
  const slow = await one.commands.run('for i in $(seq 600); do echo $i > /tmp/count; sleep 0.05; done', {
    background: true,
    timeoutMs: 0,
  })
  await until(() => one.files.exists('/tmp/count'))
  const paused = await (has(one, 'pause') ? one.pause() : one.betaPause())
  assert.notEqual(paused, false)
  assert.equal(await one.isRunning(), false)
  assert.equal((await Sandbox.list({ query: { state: ['paused'] } }).nextItems()).some((s) => s.sandboxId === one.sandboxId), true)
  const again = await Sandbox.connect(one.sandboxId)
  const before = Number(await again.files.read('/tmp/count'))
  await until(async () => Number(await again.files.read('/tmp/count')) > before)
  const alive = await again.commands.list()
  assert.ok(alive.some((p) => p.pid === slow.pid))
  await again.kill()
})
await check('sandboxes', 'pause twice says no', async () => {
  const one = await create()
  await (has(one, 'pause') ? one.pause() : one.betaPause())
  assert.equal(await (has(one, 'pause') ? one.pause() : one.betaPause()), false)
  await one.kill()
})
await check('sandboxes', 'a timeout with lifecycle pause pauses', async () => {
  const one = await create({ timeoutMs: 60_000, lifecycle: { onTimeout: 'pause' } })
  await one.files.write('/home/user/kept', 'yes')
  await one.setTimeout(1000)
  await until(async () => !(await one.isRunning()))
  const again = await Sandbox.connect(one.sandboxId)
  assert.equal(await again.files.read('/home/user/kept'), 'yes')
  await again.kill()
})
if (packageName === 'e2b')
  await check('sandboxes', 'a pause without memory is a reboot', async () => {
    const one = await create({ timeoutMs: 60_000, lifecycle: { onTimeout: { action: 'pause', keepMemory: false } } })
    await one.files.write('/home/user/kept', 'yes')
    const boot = async () => (await one.commands.run('cat /proc/sys/kernel/random/boot_id')).stdout
    const before = await boot()
    await one.setTimeout(1000)
    await until(async () => (await one.getInfo()).state === 'paused')
    await one.connect()
    assert.equal(await one.files.read('/home/user/kept'), 'yes')
    assert.notEqual(await boot(), before)
    await one.kill()
  })
await check('sandboxes', 'auto-resume by a request', async () => {
  const one = await create({ timeoutMs: 60_000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  await (has(one, 'pause') ? one.pause() : one.betaPause())
  assert.equal((await one.commands.run('echo back')).stdout, 'back\n')
  await one.kill()
})
await check('sandboxes', 'getMetrics', async () => {
  const metrics = await until(async () => {
    const some = await sandbox.getMetrics()
    return some.length > 0 && some
  })
  assert.ok(metrics[0].cpuCount >= 1)
  assert.ok(metrics[0].timestamp instanceof Date)
})
await check('sandboxes', 'createSnapshot, create from it, deleteSnapshot', async () => {
  const one = await create()
  await one.files.write('/home/user/state', 'first')
  const snapshot = await one.createSnapshot()
  await one.files.write('/home/user/state', 'second')
  const two = await create(snapshot.snapshotId)
  assert.equal(await two.files.read('/home/user/state'), 'first')
  assert.equal(await one.files.read('/home/user/state'), 'second')
  const listed = await one.listSnapshots().nextItems()
  assert.ok(listed.some((s) => s.snapshotId === snapshot.snapshotId))
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
  await one.kill()
  await two.kill()
})
if (has(sandbox, 'fork'))
  await check('sandboxes', 'fork', async () => {
    const one = await create()
    await one.files.write('/home/user/state', 'here')
    const forks = await one.fork({ count: 2, timeoutMs: 60_000 })
    assert.equal(forks.length, 2)
    for (const fork of forks) {
      made.add(fork.sandboxId)
      assert.equal(await fork.files.read('/home/user/state'), 'here')
      assert.equal((await fork.commands.run('echo $E2B_SANDBOX_ID')).stdout, fork.sandboxId + '\n')
      await fork.kill()
    }
    await one.kill()
  })
await check('sandboxes', 'allowInternetAccess false is held', async () => {
  const one = await create({ allowInternetAccess: false })
  assert.notEqual((await one.commands.run('exec 3<>/dev/tcp/1.1.1.1/53', { timeoutMs: 10_000 }).catch((e) => e)).exitCode, 0)
  await one.kill()
})
await check('sandboxes', 'finer network rules are refused, with a reason', async () => {
  await assert.rejects(create({ network: { allowOut: ['1.1.1.1'] } }), /egress/)
})
await check('sandboxes', 'a wrong key is refused', async () => {
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
})
await check('sandboxes', 'another tenant sees nothing', async () => {
  const apiKey = process.env.BERTH_OTHER_KEY
  await assert.rejects(Sandbox.connect(sandbox.sandboxId, { apiKey }), NotFoundError)
  assert.equal(await Sandbox.kill(sandbox.sandboxId, { apiKey }), false)
  const theirs = await Sandbox.list({ apiKey }).nextItems()
  assert.equal(theirs.length, 0)
  await assert.rejects(Sandbox.getInfo(sandbox.sandboxId, { apiKey }), NotFoundError)
})

// ---------------------------------------------------------------- commands
await check('commands', 'run', async () => {
  const done = await sandbox.commands.run('echo out; echo err >&2')
  assert.deepEqual([done.stdout, done.stderr, done.exitCode], ['out\n', 'err\n', 0])
})
await check('commands', 'run with an exit code', async () => {
  const failed = await sandbox.commands.run('echo before; exit 7').catch((e) => e)
  assert.ok(failed instanceof CommandExitError)
  assert.deepEqual([failed.exitCode, failed.stdout], [7, 'before\n'])
})
await check('commands', 'run with envs, cwd and user', async () => {
  const done = await sandbox.commands.run('echo $X; pwd; whoami', { envs: { X: 'y' }, cwd: '/tmp' })
  assert.equal(done.stdout, 'y\n/tmp\nuser\n')
  assert.equal((await sandbox.commands.run('whoami; echo $HOME', { user: 'root' })).stdout, 'root\n/root\n')
  assert.equal((await sandbox.commands.run('pwd')).stdout, '/home/user\n')
})
await check('commands', 'a program inside can tell where it runs', async () => {
  const asked = 'echo $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID; cd /run/e2b; cat .E2B_SANDBOX; echo; cat .E2B_SANDBOX_ID; echo; cat .E2B_TEMPLATE_ID'
  const [words, ...files] = (await sandbox.commands.run(asked)).stdout.trim().split('\n')
  assert.deepEqual(words.split(' '), files)
  assert.deepEqual(files.slice(0, 2), ['true', sandbox.sandboxId])
})
await check('commands', 'run in a directory that is not there', async () => {
  await assert.rejects(sandbox.commands.run('true', { cwd: '/no/such' }), /cwd '\/no\/such' does not exist/)
})
await check('commands', 'run with callbacks, large output, all bytes', async () => {
  let seen = ''
  const done = await sandbox.commands.run('head -c 3000000 /dev/zero | tr "\\0" x; echo; printf "ü%.0s" {1..50000}', {
    onStdout: (text) => void (seen += text),
  })
  assert.equal(seen.length, 3_000_001 + 50_000)
  assert.equal(done.stdout, seen)
})
await check('commands', 'run in the background, wait', async () => {
  const handle = await sandbox.commands.run('sleep 0.2; echo later', { background: true })
  assert.ok(handle.pid > 0)
  assert.equal((await handle.wait()).stdout, 'later\n')
})
await check('commands', 'sendStdin, closeStdin', async () => {
  const handle = await sandbox.commands.run('cat', { background: true, stdin: true })
  await sandbox.commands.sendStdin(handle.pid, 'hello\n')
  await until(() => handle.stdout === 'hello\n')
  if (has(sandbox.commands, 'closeStdin')) {
    await sandbox.commands.closeStdin(handle.pid)
    assert.equal((await handle.wait()).exitCode, 0)
  } else {
    await handle.kill()
  }
})
await check('commands', 'list, kill', async () => {
  const handle = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === handle.pid && p.args.includes('sleep 1000')))
  assert.equal(await sandbox.commands.kill(handle.pid), true)
  const ended = await handle.wait().catch((e) => e)
  assert.ok(ended instanceof CommandExitError)
  assert.equal((await sandbox.commands.list()).some((p) => p.pid === handle.pid), false)
  assert.equal(await sandbox.commands.kill(handle.pid), false)
  const gone = await sandbox.commands.run(`kill -0 ${handle.pid}`).catch((e) => e)
  assert.ok(gone instanceof CommandExitError)
})
await check('commands', 'disconnect, connect', async () => {
  const handle = await sandbox.commands.run('for i in $(seq 100); do echo $i; sleep 0.05; done', {
    background: true,
    timeoutMs: 0,
  })
  await until(() => handle.stdout.length > 0)
  await handle.disconnect()
  let more = ''
  const again = await sandbox.commands.connect(handle.pid, { onStdout: (text) => void (more += text), timeoutMs: 0 })
  await until(() => more.length > 0)
  assert.equal(again.pid, handle.pid)
  await again.kill()
})
await check('commands', 'connect to an unknown pid is NotFound', async () => {
  await assert.rejects(sandbox.commands.connect(999_999), NotFoundError)
})
await check('commands', 'a timeout ends the command', async () => {
  const late = await sandbox.commands.run('sleep 1000', { timeoutMs: 500 }).catch((e) => e)
  assert.ok(late instanceof TimeoutError, String(late))
  await until(async () => !(await sandbox.commands.list()).some((p) => p.args.includes('sleep 1000')))
})
await check('commands', 'the end does not wait for grandchildren', async () => {
  const done = await sandbox.commands.run('sleep 30 & echo started', { timeoutMs: 10_000 })
  assert.equal(done.stdout, 'started\n')
})
await check('commands', 'a killed sandbox ends its commands with a reason', async () => {
  const one = await create()
  const handle = await one.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  const ended = handle.wait().catch((e) => e)
  await one.kill()
  assert.ok((await ended) instanceof TimeoutError, String(await ended))
})
await check('commands', '50 at once', async () => {
  const all = await Promise.all(Array.from({ length: 50 }, (_, i) => sandbox.commands.run(`echo ${i}`)))
  assert.deepEqual(all.map((r) => r.stdout), Array.from({ length: 50 }, (_, i) => `${i}\n`))
})

// ---------------------------------------------------------------- pty
await check('pty', 'create, sendInput, resize, kill', async () => {
  let seen = ''
  const decoder = new TextDecoder()
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: (d) => void (seen += decoder.decode(d)), timeoutMs: 0 })
  const type = (text) => sandbox.pty.sendInput(pty.pid, new TextEncoder().encode(text))
  await type('stty size\n')
  await until(() => seen.includes('24 80'))
  await sandbox.pty.resize(pty.pid, { cols: 100, rows: 30 })
  await type('stty size; echo $TERM\n')
  await until(() => seen.includes('30 100') && seen.includes('xterm-256color'))
  await type('exit 3\n')
  const ended = await pty.wait().catch((e) => e)
  assert.equal(ended.exitCode, 3)
})
await check('pty', 'kill', async () => {
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 0 })
  assert.equal(await sandbox.pty.kill(pty.pid), true)
  await pty.wait().catch(() => {})
  assert.equal(await sandbox.pty.kill(pty.pid), false)
})

// ---------------------------------------------------------------- files
await check('files', 'write, read', async () => {
  const info = await sandbox.files.write('notes/a.txt', 'hello')
  assert.equal(info.path, '/home/user/notes/a.txt')
  assert.equal(await sandbox.files.read('notes/a.txt'), 'hello')
  assert.equal(await sandbox.files.read('/home/user/notes/a.txt'), 'hello')
  const bytes = await sandbox.files.read('notes/a.txt', { format: 'bytes' })
  assert.deepEqual([...bytes], [...Buffer.from('hello')])
})
await check('files', 'read as blob and stream', async () => {
  const blob = await sandbox.files.read('notes/a.txt', { format: 'blob' })
  assert.equal(await blob.text(), 'hello')
  const stream = await sandbox.files.read('notes/a.txt', { format: 'stream' })
  let text = ''
  for await (const piece of stream) text += Buffer.from(piece).toString()
  assert.equal(text, 'hello')
})
await check('files', 'write an empty file', async () => {
  await sandbox.files.write('empty', '')
  assert.equal(await sandbox.files.read('empty'), '')
})
await check('files', 'write several', async () => {
  const infos = await sandbox.files.write([
    { path: '/tmp/many/1', data: 'one' },
    { path: '/tmp/many/deep/2', data: new Blob(['two']) },
  ])
  assert.deepEqual(infos.map((i) => i.path), ['/tmp/many/1', '/tmp/many/deep/2'])
  assert.equal(await sandbox.files.read('/tmp/many/deep/2'), 'two')
})
await check('files', 'write all bytes, 20 MB', async () => {
  const big = new Uint8Array(20_000_000).map((_, i) => (i * 7) % 256)
  await sandbox.files.write('big', big.buffer)
  const back = await sandbox.files.read('big', { format: 'bytes' })
  assert.equal(Buffer.compare(Buffer.from(back), Buffer.from(big)), 0)
  const sum = await sandbox.commands.run('wc -c < big')
  assert.equal(sum.stdout.trim(), '20000000')
})
await check('files', 'write with gzip', async () => {
  await sandbox.files.write('/tmp/zipped', 'squeezed '.repeat(1000), { gzip: true })
  assert.equal(await sandbox.files.read('/tmp/zipped', { gzip: true }), 'squeezed '.repeat(1000))
})
await check('files', 'write where only root may', async () => {
  await sandbox.files.write('/0/file.txt', 'root')
  assert.equal(await sandbox.files.read('/0/file.txt'), 'root')
})
await check('files', 'write belongs to the user', async () => {
  await sandbox.files.write('/home/user/owned', 'x')
  assert.equal((await sandbox.commands.run('stat -c "%U %a" owned')).stdout, 'user 644\n')
})
await check('files', 'read what is not there', async () => {
  await assert.rejects(sandbox.files.read('/no/such'), NotFoundError)
})
await check('files', 'list', async () => {
  await sandbox.files.write('/tmp/tree/a/b/c', 'x')
  await sandbox.files.write('/tmp/tree/d', 'y')
  const one = await sandbox.files.list('/tmp/tree')
  assert.deepEqual(one.map((e) => [e.name, e.type]), [['a', 'dir'], ['d', 'file']])
  const all = await sandbox.files.list('/tmp/tree', { depth: 3 })
  assert.deepEqual(all.map((e) => e.path), ['/tmp/tree/a', '/tmp/tree/a/b', '/tmp/tree/a/b/c', '/tmp/tree/d'])
})
await check('files', 'makeDir, exists, rename, remove', async () => {
  assert.equal(await sandbox.files.makeDir('/tmp/new/dir'), true)
  assert.equal(await sandbox.files.makeDir('/tmp/new/dir'), false)
  await sandbox.files.write('/tmp/new/dir/f', '1')
  await sandbox.files.write('/tmp/new/g', '2')
  const moved = await sandbox.files.rename('/tmp/new/dir/f', '/tmp/new/g')
  assert.equal(moved.path, '/tmp/new/g')
  assert.equal(await sandbox.files.read('/tmp/new/g'), '1')
  assert.equal(await sandbox.files.exists('/tmp/new/dir/f'), false)
  await sandbox.files.remove('/tmp/new')
  assert.equal(await sandbox.files.exists('/tmp/new'), false)
  await assert.rejects(sandbox.files.rename('/tmp/none', '/tmp/other'), NotFoundError)
})
await check('files', 'getInfo, also of a symlink', async () => {
  await sandbox.files.write('/tmp/info.txt', '12345')
  await sandbox.commands.run('ln -sf /tmp/info.txt /tmp/link; chmod 640 /tmp/info.txt')
  const info = await sandbox.files.getInfo('/tmp/info.txt')
  assert.deepEqual([info.name, info.type, info.size, info.mode, info.permissions, info.owner, info.group], ['info.txt', 'file', 5, 0o640, '-rw-r-----', 'user', 'user'])
  const link = await sandbox.files.getInfo('/tmp/link')
  assert.deepEqual([link.symlinkTarget, link.type], ['/tmp/info.txt', 'file'])
})
await check('files', 'watchDir', async () => {
  await sandbox.files.makeDir('/tmp/watched')
  const seen = []
  const handle = await sandbox.files.watchDir('/tmp/watched', (event) => void seen.push(event))
  await sandbox.files.write('/tmp/watched/new', '1')
  await until(() => seen.some((e) => e.name === 'new' && e.type === 'create'))
  await sandbox.files.write('/tmp/watched/new', '2')
  await until(() => seen.some((e) => e.name === 'new' && e.type === 'write'))
  await sandbox.files.remove('/tmp/watched/new')
  await until(() => seen.some((e) => e.name === 'new' && e.type === 'remove'))
  await handle.stop()
})
await check('files', 'watchDir, recursive', async () => {
  await sandbox.files.makeDir('/tmp/deep')
  const seen = []
  const handle = await sandbox.files.watchDir('/tmp/deep', (event) => void seen.push(event), { recursive: true })
  await sandbox.files.write('/tmp/deep/one/two/three', '1')
  await until(() => seen.some((e) => e.name === 'one/two/three'))
  await handle.stop()
})
await check('files', 'watchDir of what is not there', async () => {
  await assert.rejects(sandbox.files.watchDir('/no/such', () => {}), NotFoundError)
})
await check('files', 'uploadUrl, downloadUrl', async () => {
  const up = await sandbox.uploadUrl('/tmp/signed', { useSignatureExpiration: 60 })
  const form = new FormData()
  form.append('file', new Blob(['by link']))
  const sent = await fetch(up, { method: 'POST', body: form })
  assert.equal(sent.status, 200)
  const down = await sandbox.downloadUrl('/tmp/signed', { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(down)).text(), 'by link')
  const forged = new URL(down)
  forged.searchParams.set('path', '/etc/passwd')
  assert.equal((await fetch(forged)).status, 401)
})
await check('files', 'a link that is over', async () => {
  const url = await sandbox.downloadUrl('/tmp/signed', { useSignatureExpiration: -10 })
  const answer = await fetch(url)
  assert.deepEqual([answer.status, await answer.json()], [401, { code: 401, message: 'signature is already expired' }])
})

await metadata({ check, sandbox })
await volumes({ check, create, sdk })

// ---------------------------------------------------------------- git
if (sandbox.git)
  await check('git', 'init, add, commit, status, branches', async () => {
    await sandbox.git.init('/home/user/repo')
    await sandbox.git.configureUser('A', 'a@example.org')
    await sandbox.files.write('/home/user/repo/f', '1')
    await sandbox.git.add('/home/user/repo')
    await sandbox.git.commit('/home/user/repo', 'first')
    const status = await sandbox.git.status('/home/user/repo')
    assert.equal(status.isClean, true)
    await sandbox.git.createBranch('/home/user/repo', 'other')
    assert.ok((await sandbox.git.branches('/home/user/repo')).branches.includes('other'))
  })

// ---------------------------------------------------------------- ports
/// getHost() names a host; in this mode the two headers say the same.
function toPort(port, path, options = {}, to = sandbox) {
  const url = new URL(process.env.E2B_SANDBOX_URL)
  return new Promise((done, failed) => {
    const request = http.request(
      { host: url.hostname, port: url.port, path, ...options, headers: { ...options.headers, 'E2b-Sandbox-Id': to.sandboxId, 'E2b-Sandbox-Port': String(port) } },
      (answer) => {
        let body = ''
        answer.on('data', (piece) => (body += piece))
        answer.on('end', () => done({ status: answer.statusCode, body }))
        answer.on('error', failed)
      },
    )
    request.on('upgrade', (answer, socket, early) => done({ status: answer.statusCode, socket, early }))
    request.on('error', failed)
    request.end(options.body)
  })
}
await check('ports', 'HTTP to a program inside', async () => {
  await sandbox.files.write('/home/user/www/hello', 'from inside')
  await sandbox.commands.run('python3 -m http.server 8000 --bind 127.0.0.1 -d www', { background: true, timeoutMs: 0 })
  const answer = await until(async () => {
    const got = await toPort(8000, '/hello')
    return got.status === 200 && got
  })
  assert.equal(answer.body, 'from inside')
  // By its name: the resolver of this machine may not know that names below localhost are its own.
  const host = sandbox.getHost(8000)
  assert.match(host, /^8000-[a-z0-9]+\.localhost:\d+$/)
  const named = await new Promise((done, failed) => {
    const url = new URL(process.env.E2B_SANDBOX_URL)
    http.get({ host: url.hostname, port: url.port, path: '/hello', headers: { Host: host } }, (got) => done(got.statusCode)).on('error', failed)
  })
  assert.equal(named, 200)
})
await check('ports', 'a body to a program inside, and a chunked answer', async () => {
  const program = `
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in (body[:10], body[10:].upper()):
            self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(piece), piece))
        self.wfile.write(b"0\\r\\n\\r\\n")
http.server.HTTPServer(("0.0.0.0", 8003), H).serve_forever()
`
  await sandbox.files.write('/home/user/post.py', program)
  await sandbox.commands.run('python3 post.py', { background: true, timeoutMs: 0 })
  const answer = await until(async () => {
    const got = await toPort(8003, '/x', { method: 'POST', body: 'a'.repeat(100_000) })
    return got.status === 201 && got
  })
  assert.equal(answer.body, 'a'.repeat(10) + 'A'.repeat(99_990))
})
await check('ports', 'a port that is closed is 502', async () => {
  const answer = await toPort(8001, '/')
  assert.equal(answer.status, 502)
  assert.equal(JSON.parse(answer.body).message, 'The sandbox is running but port is not open')
})
await check('ports', 'a closed port in a browser is a page', async () => {
  const answer = await toPort(8001, '/', { headers: { 'User-Agent': 'Mozilla/5.0 (X11) Firefox/150', Accept: '*/*' } })
  assert.equal(answer.status, 502)
  assert.match(answer.body, /<title>Closed Port Error<\/title>/)
})
if (packageName === 'e2b')
  await check('ports', 'a program inside that speaks TLS', async () => {
    const one = await create({ network: { httpsPorts: [8443], maskRequestHost: 'inside.example:${PORT}' } })
    assert.deepEqual((await one.getInfo()).network?.httpsPorts, [8443])
    const program = `
import http.server, ssl
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'over TLS as ' + dict(self.headers.items())['Host'].encode())
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8443), H)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('/tmp/cert.pem', '/tmp/key.pem')
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
`
    await one.files.write('/tmp/tls.py', program)
    const make = 'openssl req -x509 -newkey rsa:2048 -keyout /tmp/key.pem -out /tmp/cert.pem -days 1 -nodes -subj /CN=x'
    await one.commands.run(make)
    await one.commands.run('python3 /tmp/tls.py', { background: true, timeoutMs: 0 })
    const answer = await until(async () => {
      // fetch() writes the name small; the program inside knows it as it is usually written.
      const got = await toPort(8443, '/', { headers: { host: new URL(process.env.E2B_SANDBOX_URL).host } }, one)
      return got.status === 200 && got
    })
    assert.equal(answer.body, 'over TLS as inside.example:8443')
    await one.kill()
  })
await check('ports', 'another protocol by Upgrade', async () => {
  const program = `
import socket
s = socket.create_server(("127.0.0.1", 8002))
while True:
    c, _ = s.accept()
    head = b""
    while b"\\r\\n\\r\\n" not in head: head += c.recv(4096)
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n")
    while True:
        data = c.recv(4096)
        if not data: break
        c.sendall(data.upper())
`
  await sandbox.files.write('/home/user/echo.py', program)
  await sandbox.commands.run('python3 echo.py', { background: true, timeoutMs: 0 })
  const got = await until(async () => {
    const one = await toPort(8002, '/', { headers: { Connection: 'Upgrade', Upgrade: 'echo' } })
    return one.status === 101 && one
  })
  let seen = ''
  got.socket.on('data', (piece) => (seen += piece))
  got.socket.write('hello')
  await until(() => seen === 'HELLO')
  got.socket.destroy()
})

// ---------------------------------------------------------------- templates, code interpreter
await templates({ check, create, sdk })
if (packageName === 'e2b') {
  await interpreter({ check, made })
  await cli({ check, create })
}

for (const id of made) await Sandbox.kill(id).catch(() => {})
const failed = results.filter((r) => !r.ok)
writeFileSync(resultsFile, JSON.stringify(results))
console.log(`${results.length - failed.length} passed, ${failed.length} failed`)
process.exit(failed.length === 0 ? 0 : 1)
