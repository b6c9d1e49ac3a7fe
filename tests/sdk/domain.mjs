// With a domain and TLS the SDK needs nothing but E2B_DOMAIN and a key, and getHost() leads to a program inside.
import assert from 'node:assert/strict'
import https from 'node:https'

const { Sandbox } = await import(process.argv[2])
const sandbox = await Sandbox.create()
assert.equal((await sandbox.commands.run('echo over TLS')).stdout, 'over TLS\n')
await sandbox.files.write('www/hello', 'by name')
assert.equal(await sandbox.files.read('www/hello'), 'by name')
const down = await sandbox.downloadUrl('/home/user/www/hello')
assert.equal(new URL(down).hostname, `49983-${sandbox.sandboxId}.sbx.localhost`)
assert.equal(await (await fetch(down)).text(), 'by name')
await sandbox.commands.run('python3 -m http.server 8000 -d www', { background: true, timeoutMs: 0 })
const host = sandbox.getHost(8000)
assert.match(host, new RegExp(`^8000-${sandbox.sandboxId}\\.sbx\\.localhost:`))
const get = () =>
  new Promise((done, failed) => {
    https.get(`https://${host}/hello`, (answer) => {
      let body = ''
      answer.on('data', (piece) => (body += piece))
      answer.on('end', () => done({ status: answer.statusCode, body }))
    }).on('error', failed)
  })
let answer
do answer = await get()
while (answer.status === 502)
assert.deepEqual(answer, { status: 200, body: 'by name' })
const page = await fetch(`https://${host}/hello`, { headers: { Origin: 'https://elsewhere.example' } })
assert.equal(page.status, 200)
await sandbox.kill()
assert.equal((await get()).status, 502)
console.log('ok over TLS, by name')
