// Starts a web server in a sandbox and opens its page from outside.

import { execFileSync } from 'node:child_process'
import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create()
try {
  await sandbox.files.write('site/index.html', '<h1>It works</h1>\n')
  const server = await sandbox.commands.run('python3 -m http.server 3000 --directory site', { background: true })

  const url = `http://${sandbox.getHost(3000)}`
  console.log('open in a browser:', url)

  // Browsers and curl resolve *.localhost to this machine; Node asks the system, which may not know it.
  const page = execFileSync('curl', ['--silent', '--retry', '20', '--retry-delay', '1', '--retry-all-errors', '--fail', url])
  console.log(page.toString().trim())

  await server.kill()
} finally {
  await sandbox.kill()
}
