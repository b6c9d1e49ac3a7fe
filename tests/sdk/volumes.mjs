// Volumes, and what is kept with files, by the unmodified SDKs. Added to the rows of suite.mjs, which gives check().
import assert from 'node:assert/strict'

export async function metadata({ check, sandbox }) {
  await check('files', 'write with metadata; getInfo, list and rename show it', async () => {
    const metadata = { author: 'somebody', purpose: 'a test' }
    const info = await sandbox.files.write('/home/user/noted/a', 'x', { metadata })
    assert.deepEqual(info.metadata, metadata)
    assert.deepEqual((await sandbox.files.getInfo('/home/user/noted/a')).metadata, metadata)
    await sandbox.files.write('/home/user/noted/b', 'y')
    const listed = await sandbox.files.list('/home/user/noted')
    assert.deepEqual(listed.map((entry) => entry.metadata), [metadata, undefined])
    const moved = await sandbox.files.rename('/home/user/noted/a', '/home/user/noted/c')
    assert.deepEqual(moved.metadata, metadata)
  })
  await check('files', 'write without metadata takes away what was there', async () => {
    await sandbox.files.write('/tmp/noted', 'x', { metadata: { a: '1' } })
    const again = await sandbox.files.write('/tmp/noted', 'y')
    assert.equal(again.metadata, undefined)
    assert.equal((await sandbox.files.getInfo('/tmp/noted')).metadata, undefined)
  })
  await check('files', 'write several, and as a stream of bytes, with metadata', async () => {
    const metadata = { source: 'suite' }
    const files = [
      { path: '/tmp/noted-1', data: '1' },
      { path: '/tmp/noted-2', data: '2' },
    ]
    for (const info of await sandbox.files.writeFiles(files, { metadata }))
      assert.deepEqual([info.metadata, (await sandbox.files.getInfo(info.path)).metadata], [metadata, metadata])
    const one = await sandbox.files.write('/tmp/noted-3', '3', { metadata, useOctetStream: true })
    assert.deepEqual([one.metadata, (await sandbox.files.getInfo('/tmp/noted-3')).metadata], [metadata, metadata])
  })
  await check('files', 'an attribute that is set inside is shown', async () => {
    await sandbox.files.write('/tmp/inside', 'x')
    await sandbox.commands.run(`python3 -c 'import os; os.setxattr("/tmp/inside", "user.e2b.by", b"inside")'`)
    assert.deepEqual((await sandbox.files.getInfo('/tmp/inside')).metadata, { by: 'inside' })
  })
}

export async function volumes({ check, create, sdk }) {
  const { Sandbox, Volume } = sdk
  if (!Volume) return
  const name = (word) => `${word}-${Math.random().toString(36).slice(2, 8)}`
  const other = { apiKey: process.env.BERTH_OTHER_KEY }

  await check('volumes', 'create, getInfo, connect, list, destroy', async () => {
    const volume = await Volume.create(name('one'))
    assert.equal((await Volume.getInfo(volume.volumeId)).name, volume.name)
    assert.equal((await Volume.connect(volume.volumeId)).token, volume.token)
    assert.ok((await Volume.list()).some((one) => one.volumeId === volume.volumeId && one.name === volume.name))
    await assert.rejects(Volume.create(volume.name), /409/)
    await assert.rejects(Volume.create('no/name'), /400/)
    assert.equal(await Volume.destroy(volume.volumeId), true)
    assert.equal(await Volume.destroy(volume.volumeId), false)
    await assert.rejects(Volume.getInfo(volume.volumeId), /not found/)
    await assert.rejects(volume.list('/'), /not found/)
  })
  await check('volumes', 'writeFile, readFile in every form, remove', async () => {
    const volume = await Volume.create(name('files'))
    const info = await volume.writeFile('/a.txt', 'hello')
    assert.deepEqual([info.name, info.type, info.path, info.size], ['a.txt', 'file', '/a.txt', 5])
    assert.equal(await volume.readFile('/a.txt'), 'hello')
    assert.deepEqual([...(await volume.readFile('/a.txt', { format: 'bytes' }))], [...Buffer.from('hello')])
    assert.equal(await (await volume.readFile('/a.txt', { format: 'blob' })).text(), 'hello')
    let text = ''
    for await (const piece of await volume.readFile('/a.txt', { format: 'stream' })) text += Buffer.from(piece).toString()
    assert.equal(text, 'hello')
    await assert.rejects(volume.writeFile('/a.txt', 'other'), /exists/)
    assert.equal(await volume.readFile('/a.txt'), 'hello')
    await volume.writeFile('/a.txt', '', { force: true })
    assert.equal(await volume.readFile('/a.txt'), '')
    const big = new Uint8Array(5_000_000).map((_, i) => (i * 7) % 256)
    await volume.writeFile('/big', big.buffer)
    assert.equal(Buffer.compare(Buffer.from(await volume.readFile('/big', { format: 'bytes' })), Buffer.from(big)), 0)
    await volume.remove('/a.txt')
    assert.equal(await volume.exists('/a.txt'), false)
    await assert.rejects(volume.remove('/a.txt'), /not found/)
    await assert.rejects(volume.readFile('/a.txt'), /not found/)
    await assert.rejects(volume.writeFile('/no/such/dir', 'x'), /not found/)
    await volume.writeFile('/no/such/dir', 'x', { force: true })
    assert.equal(await volume.readFile('/no/such/dir'), 'x')
    await Volume.destroy(volume.volumeId)
  })
  await check('volumes', 'makeDir, list, getInfo, updateMetadata, remove of a tree', async () => {
    const volume = await Volume.create(name('tree'))
    await volume.makeDir('/d', { uid: 1000, gid: 1000, mode: 0o750 })
    const made = await volume.getInfo('/d')
    assert.deepEqual([made.type, made.uid, made.gid, made.mode & 0o777], ['directory', 1000, 1000, 0o750])
    await assert.rejects(volume.makeDir('/x/y'), /not found/)
    await volume.makeDir('/x/y', { force: true })
    await volume.makeDir('/x/y', { force: true })
    await volume.writeFile('/x/y/f', '1', { mode: 0o600 })
    assert.deepEqual((await volume.list('/')).map((e) => e.path), ['/d', '/x'])
    assert.deepEqual((await volume.list('/', { depth: 3 })).map((e) => e.path), ['/d', '/x', '/x/y', '/x/y/f'])
    const changed = await volume.updateMetadata('/x/y/f', { mode: 0o644 })
    assert.deepEqual([changed.mode, changed.type], [0o644, 'file'])
    assert.ok(changed.mtime instanceof Date && changed.ctime instanceof Date)
    await assert.rejects(volume.updateMetadata('/none', { mode: 0o644 }), /not found/)
    await assert.rejects(volume.list('/none'), /not found/)
    await volume.remove('/x', { recursive: true })
    assert.equal(await volume.exists('/x'), false)
    await Volume.destroy(volume.volumeId)
  })
  await check('volumes', 'create with volumeMounts: what one sandbox writes, the next reads', async () => {
    const volume = await Volume.create(name('mount'))
    await volume.writeFile('/from-outside', 'first')
    const writer = await create({ volumeMounts: { '/mnt/data': volume } })
    assert.equal(await writer.files.read('/mnt/data/from-outside'), 'first')
    assert.equal((await writer.commands.run('echo again > /mnt/data/hello; stat -c %U /mnt/data /mnt/data/from-outside')).stdout, 'user\nuser\n')
    assert.equal(await volume.readFile('/hello'), 'again\n')
    await assert.rejects(Volume.destroy(volume.volumeId), /409/)
    const reader = await create({ volumeMounts: { '/srv/shared': volume.name } })
    assert.equal(await reader.files.read('/srv/shared/hello'), 'again\n')
    await reader.files.write('/srv/shared/back', 'both ways')
    assert.equal(await writer.files.read('/mnt/data/back'), 'both ways')
    await writer.kill()
    await reader.kill()
    const later = await create({ volumeMounts: { '/mnt/data': volume } })
    assert.equal(await later.files.read('/mnt/data/hello'), 'again\n')
    await later.kill()
    assert.equal(await Volume.destroy(volume.volumeId), true)
  })
  await check('volumes', 'one from a snapshot has the volumes it asks for, and no others', async () => {
    const volume = await Volume.create(name('snap'))
    const one = await create({ volumeMounts: { '/mnt/data': volume } })
    await one.files.write('/mnt/data/kept', 'in the volume')
    const snapshot = await one.createSnapshot()
    const bare = await create(snapshot.snapshotId)
    assert.equal(await bare.files.exists('/mnt/data/kept'), false)
    const with_it = await create(snapshot.snapshotId, { volumeMounts: { '/mnt/data': volume } })
    assert.equal(await with_it.files.read('/mnt/data/kept'), 'in the volume')
    for (const each of [one, bare, with_it]) await each.kill()
    await Sandbox.deleteSnapshot(snapshot.snapshotId)
    await Volume.destroy(volume.volumeId)
  })
  await check('volumes', 'another tenant sees nothing', async () => {
    const volume = await Volume.create(name('mine'))
    assert.equal((await Volume.list(other)).length, 0)
    await assert.rejects(Volume.getInfo(volume.volumeId, other), /not found/)
    assert.equal(await Volume.destroy(volume.volumeId, other), false)
    await assert.rejects(Sandbox.create({ ...other, volumeMounts: { '/mnt/data': volume.name } }), /400/)
    const stranger = new Volume(volume.volumeId, volume.name, 'not-its-token', volume.domain)
    await assert.rejects(stranger.list('/'), /401|Unauthorized|token/i)
    await Volume.destroy(volume.volumeId)
  })
}
