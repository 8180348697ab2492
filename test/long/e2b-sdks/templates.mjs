// Templates through E2B's JavaScript SDK, as a person tries them: many files, users, rebuilds, boots, MCP.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const { Sandbox, Template, waitForPort } = await import(
  pathToFileURL(`${process.argv[2]}/node_modules/e2b/dist/index.mjs`).href
)
const context = mkdtempSync(join(tmpdir(), 'e2b-context-'))
mkdirSync(join(context, 'many'))
for (let at = 0; at < 14; at++) writeFileSync(join(context, 'many', `${at}.txt`), `file ${at}\n`)
const fresh = () => Template({ fileContextPath: context }).fromBaseImage()
const ended = []
const create = async (...args) => {
  const sandbox = await Sandbox.create(...args)
  ended.push(() => sandbox.kill())
  return sandbox
}
const out = async (sandbox, command, o) => (await sandbox.commands.run(command, o)).stdout.trim()

const CASES = {
  async 'more files than uploads at once, with owner, group and mode'() {
    let template = fresh()
    for (let at = 0; at < 14; at++)
      template = template.copy(`many/${at}.txt`, `/srv/many/${at}.txt`, {
        user: 'user:www-data',
        mode: 0o640,
      })
    await Template.build(template.runCmd('cat /srv/many/*.txt | wc -l > count.txt'), 'many')
    const sandbox = await create('many')
    assert.equal(
      await out(sandbox, 'cat count.txt; stat -c "%U %G %a" /srv/many/3.txt'),
      '14\nuser www-data 640',
    )
  },

  async 'users with another home, and users without one'() {
    const template = fresh()
      .runCmd('useradd -d /opt/app -m app', { user: 'root' })
      .setUser('app')
      .runCmd('id -un > who.txt; pwd >> who.txt; echo $HOME >> who.txt')
      .setUser('www-data')
      .runCmd('id -un')
    await Template.build(template, 'users')
    const sandbox = await create('users')
    assert.equal(await out(sandbox, 'id -un'), 'www-data')
    assert.equal(await out(sandbox, 'cat ~app/who.txt', { user: 'root' }), 'app\n/opt/app\n/opt/app')
  },

  async 'a start command runs at every boot: pause, stop, snapshot, fork'() {
    const template = fresh()
      .setWorkdir('/srv/www')
      .runCmd('echo page > index.html')
      .setStartCmd('date +%N >> /srv/www/boots; exec python3 -m http.server 8400', waitForPort(8400))
    await Template.build(template, 'boots')
    const sandbox = await create('boots')
    const page = (one) => out(one, 'curl -s localhost:8400')
    const boots = async (one) => Number(await out(one, 'wc -l < /srv/www/boots'))
    assert.deepEqual([await page(sandbox), await boots(sandbox)], ['page', 1])
    await sandbox.pause()
    await sandbox.connect()
    assert.deepEqual([await page(sandbox), await boots(sandbox)], ['page', 1], 'memory was kept')
    await sandbox.pause({ keepMemory: false })
    await sandbox.connect()
    assert.deepEqual([await page(sandbox), await boots(sandbox)], ['page', 2])
    const { snapshotId } = await sandbox.createSnapshot()
    const copy = await create(snapshotId)
    assert.deepEqual([await page(copy), await boots(copy)], ['page', 3])
    const [fork] = await sandbox.fork()
    ended.push(() => fork.kill())
    assert.equal(await page(fork), 'page')
  },

  async 'a template is rebuilt without the cache while its sandbox runs, and later builds keep that'() {
    const template = () => fresh().runCmd('date +%s%N > stamp.txt')
    await Template.build(template(), 'stamp')
    const first = await create('stamp')
    const stamp = (one) => out(one, 'cat stamp.txt')
    const before = await stamp(first)
    await Template.build(template(), 'stamp', { skipCache: true })
    const after = await stamp(await create('stamp'))
    assert.notEqual(after, before)
    await Template.build(template().runCmd('true'), 'stamp')
    assert.equal(await stamp(await create('stamp')), after)
    assert.equal(await stamp(first), before)
  },

  async 'a Dockerfile is read by the SDK'() {
    const dockerfile = [
      'FROM e2bdev/base',
      'ARG SHADE=green',
      'ENV SHADE=$SHADE LONG=one',
      'WORKDIR /app',
      'COPY many ./many',
      'USER root',
      'RUN echo "$LONG" > made.txt && \\',
      '    chmod 644 made.txt',
      'USER user',
      'CMD ["python3", "-m", "http.server", "8500"]',
    ].join('\n')
    const template = Template({ fileContextPath: context }).fromDockerfile(dockerfile)
    await Template.build(template, 'dockerfile')
    const sandbox = await create('dockerfile')
    assert.equal(await out(sandbox, 'cat /app/made.txt /app/many/3.txt; pwd'), 'one\nfile 3\n/app')
    assert.match(
      await out(sandbox, 'for _ in $(seq 50); do curl -s localhost:8500 && break; sleep 0.1; done'),
      /many/,
    )
  },

  async 'an image from a registry, alone and below another template'() {
    if (!process.env.IMAGE) return
    await Template.build(Template().fromImage(process.env.IMAGE).runCmd('id -un > who'), 'image')
    const sandbox = await create('image')
    assert.equal(await out(sandbox, 'cat who'), 'user')
    await Template.build(Template().fromTemplate('image').runCmd('cp who again'), 'on-image')
    assert.equal(await out(await create('on-image'), 'cat again'), 'user')
  },

  async 'an MCP gateway: named if it is missing, started if it was built'() {
    const mcp = { time: {} }
    await assert.rejects(Sandbox.create({ mcp }), /template named mcp-gateway/)
    const gateway = [
      '#!/usr/bin/env python3',
      'import http.server, os, subprocess, sys',
      'if "--serve" not in sys.argv:',
      '    os.makedirs("/etc/mcp-gateway", exist_ok=True)',
      '    open("/etc/mcp-gateway/.token", "w").write(os.environ["GATEWAY_ACCESS_TOKEN"])',
      '    open("/etc/mcp-gateway/config", "w").write(sys.argv[2])',
      '    subprocess.Popen([__file__, "--serve"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)',
      '    sys.exit()',
      'http.server.test(http.server.SimpleHTTPRequestHandler, port=50005)',
    ].join('\n')
    writeFileSync(join(context, 'mcp-gateway'), gateway)
    await Template.build(
      fresh().copy('mcp-gateway', '/usr/local/bin/mcp-gateway', { user: 'root', mode: 0o755 }),
      'mcp-gateway',
    )
    const sandbox = await create({ mcp })
    assert.match(sandbox.getMcpUrl(), /^https:\/\/50005-[a-z0-9]+\..*\/mcp$/)
    const token = await sandbox.getMcpToken()
    const again = await Sandbox.connect(sandbox.sandboxId)
    assert.equal(await again.getMcpToken(), token)
    assert.equal(await out(sandbox, 'cat /etc/mcp-gateway/config', { user: 'root' }), JSON.stringify(mcp))
    const wait =
      'for _ in $(seq 100); do curl -sf -o /dev/null localhost:50005 && break; sleep 0.1; done; echo $?'
    assert.equal(await out(sandbox, wait), '0')
    // A gateway that does not start ends the sandbox, and the SDK says why.
    await Template.build(fresh().runCmd('true'), 'no-gateway')
    await assert.rejects(Sandbox.create('no-gateway', { mcp }), /mcp-gateway/)
  },
}

let failed = 0
for (const [name, work] of Object.entries(CASES)) {
  if (process.argv[3] && !name.includes(process.argv[3])) continue
  const started = performance.now()
  try {
    await work()
    console.log(`ok ${name} ${Math.round(performance.now() - started)}ms`)
  } catch (error) {
    failed += 1
    console.log(
      `FAILED ${name} ${Math.round(performance.now() - started)}ms\n${error.message}\n${error.stack}`,
    )
  }
}
await Promise.allSettled(ended.map((end) => end()))
console.log(failed === 0 ? 'templates: done' : `templates: ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
