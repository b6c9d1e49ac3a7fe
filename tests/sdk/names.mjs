// Names below sbx.localhost stand for this machine, as a resolver with RFC 6761 has it; glibc's alone has not.
import dns from 'node:dns'
const real = dns.lookup
dns.lookup = (host, options, done) => {
  if (typeof options === 'function') [options, done] = [{}, options]
  if (!host.endsWith('.sbx.localhost')) return real(host, options, done)
  if (options?.all) return done(null, [{ address: '127.0.0.1', family: 4 }])
  return done(null, '127.0.0.1', 4)
}
