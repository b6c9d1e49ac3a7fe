const fs = require('node:fs')
const inspector = require('node:inspector')
const util = require('node:util')
const { stripTypeScriptTypes } = require('node:module')

const [, requests, events, language] = process.argv
const tell = (event) => fs.writeSync(Number(events), JSON.stringify(event) + '\n')
process.on('uncaughtException', (error) => console.error(error))
process.on('unhandledRejection', (error) => console.error(error))
Object.assign(globalThis, { require, module })
const shown = (value) => (typeof value === 'string' ? value : util.inspect(value))
Object.defineProperty(globalThis, '__berth_shown', { value: shown })

// As a debugger's console: what one cell declares the next one has, and `await` needs no function around it.
// An endless loop is not interrupted but ends with the process, which the next cell has anew.
const session = new inspector.Session()
session.connect()
const ask = (method, wish) =>
  new Promise((done, failed) => session.post(method, wish, (error, told) => (error ? failed(error) : done(told))))

function failed({ exception, text }) {
  const trace = (exception?.description ?? text).split(/\n    at Session\.post /)[0]
  const [, name, value] = /^([A-Za-z_$][\w$]*)(?: \[\w+\])?(?:: ([^]*?))?(?:\n    at [^]*)?$/.exec(trace) ?? []
  const thrown = exception?.subtype === 'error' || exception === undefined
  const otherwise = exception && 'value' in exception ? String(exception.value) : trace
  tell({ type: 'error', name: (thrown && name) || 'Error', value: thrown && name ? (value ?? '') : otherwise, traceback: trace })
}

async function execute(code) {
  if (language === 'typescript') {
    if (!stripTypeScriptTypes) return failed({ text: `Error: TypeScript is not known to Node ${process.version}` })
    try {
      code = stripTypeScriptTypes(code)
    } catch (error) {
      return failed({ text: `SyntaxError: ${error.message}` })
    }
  }
  const told = await ask('Runtime.evaluate', { expression: code, replMode: true, awaitPromise: true })
  if (told.exceptionDetails) return failed(told.exceptionDetails)
  const { type, value, unserializableValue, objectId, description } = told.result
  if (type === 'undefined') return
  let text = unserializableValue ?? (value === undefined ? description : shown(value))
  if (objectId) {
    const functionDeclaration = 'function () { return __berth_shown(this) }'
    text = (await ask('Runtime.callFunctionOn', { objectId, functionDeclaration, returnByValue: true })).result.value
    await ask('Runtime.releaseObject', { objectId })
  }
  tell({ type: 'result', is_main_result: true, text })
}

const written = (stream, text) => new Promise((done) => stream.write(text, done))
let count = 0
async function answer(request) {
  tell({ type: 'number_of_executions', execution_count: ++count })
  const before = Object.fromEntries(Object.keys(request.env).map((name) => [name, process.env[name]]))
  Object.assign(process.env, request.env)
  await execute(request.code)
  for (const [name, value] of Object.entries(before))
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  await Promise.all([written(process.stdout, request.end), written(process.stderr, request.end)])
  tell({ type: 'end' })
}

let turn = Promise.resolve()
const lines = require('node:readline').createInterface({ input: fs.createReadStream(null, { fd: Number(requests) }) })
lines.on('line', (line) => (turn = turn.then(() => answer(JSON.parse(line)))))
lines.on('close', () => process.exit())
