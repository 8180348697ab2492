/**
 * VS Code and a desktop in the browser, through their previews, with a real Chromium. AGENTPOD_SCREENSHOTS
 * names a directory for the screenshots; AGENTPOD_ADDONS_HOME a state directory that has the layers already.
 */
import assert from 'node:assert/strict'
import { chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Browser, NO_BROWSER } from '../support/browser.ts'
import { debianImages, NO_DEBIAN } from '../support/debian-images.ts'
import { makeImage } from '../support/made-image.ts'
import { makeOrdinaryUser, noOrdinaryUser } from '../support/ordinary-user.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { until, World } from '../support/world.ts'

const home = process.env['AGENTPOD_ADDONS_HOME']
const world = new World(home === undefined ? {} : { home })
after(() => (home === undefined ? world[Symbol.asyncDispose]() : undefined))

const TOML = '[addons]\ncode-server = true\ngui = true\n[lifecycle]\ndev = "echo begun; sleep 6000"\n'

async function keep(name: string, browser: Browser): Promise<Buffer> {
  const image = await browser.screenshot()
  const directory = process.env['AGENTPOD_SCREENSHOTS']
  if (directory !== undefined) {
    mkdirSync(directory, { recursive: true })
    writeFileSync(join(directory, `${name}.png`), image)
  }
  return image
}

/** Browsers know that names below localhost are this machine; the resolver here may not. */
function statusOf(url: string): Promise<number> {
  const { host, port, pathname } = new URL(url)
  return new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port, path: pathname, headers: { host } }, (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    }).once('error', reject)
  })
}

test('LIFE-4 VS Code and a desktop open in a browser through private previews', {
  skip: NO_BROWSER,
  timeout: 40 * 60_000,
}, async () => {
  const cwd = join(world.directory(), 'shop')
  mkdirSync(cwd)
  writeFileSync(join(cwd, 'agentpod.toml'), TOML)
  writeFileSync(join(cwd, 'hello.py'), 'print("hello from the project")\n')
  await world.ok(['build'], { cwd, timeoutMs: 30 * 60_000 })
  const child = world.start(['dev', '--name', 'shop'], { cwd })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data: Buffer) => (said += data.toString()))
  try {
    await until('the dev command runs', () => said.includes('begun'), 240_000)
    assert.match(said, /^ready: .*gui/m)
    assert.match(said, /^http\S+ {2}VS Code \(this address works once/m)
    assert.match(said, /^http\S+ {2}Desktop \(this address works once/m)
    // Neither is forwarded without a password, and the display has no port.
    assert.doesNotMatch(said, /127\.0\.0\.1:(13337|6080|5901)/)
    const listening = await world.ok(['exec', 'cat /proc/net/tcp'], { cwd })
    const ports = [...listening.matchAll(/^ *\d+: \w+:(\w{4}) \S+ 0A /gm)].map(([, port]) =>
      Number.parseInt(port ?? '', 16),
    )
    assert.ok(ports.includes(13_337) && ports.includes(6080), `${ports}`)
    assert.ok(!ports.some((port) => port >= 5900 && port < 6000), `${ports}`)
    const address = async (addon: string): Promise<{ url: string; openUrl: string }> =>
      JSON.parse(await world.ok(['port', '--json', addon], { cwd })) as { url: string; openUrl: string }

    // Without the cookie that the address gives, there is no way in.
    const editor = await address('code-server')
    assert.ok((await statusOf(editor.url)) >= 400)
    await using browser = await Browser.open()
    await browser.goto(editor.openUrl)
    const explorer = `[...document.querySelectorAll('.explorer-folders-view .label-name')].map((one) => one.textContent)`
    await until(
      'VS Code shows the files of the project',
      async () => ((await browser.evaluate(explorer)) as string[] | undefined)?.includes('hello.py') === true,
      180_000,
    )
    assert.ok((await keep('code-server', browser)).length > 20_000)

    const desktop = await address('gui')
    assert.ok((await statusOf(desktop.url)) >= 400)
    await browser.goto(desktop.openUrl)
    await until(
      'the desktop is connected',
      async () =>
        (await browser.evaluate(`document.documentElement.classList.contains('noVNC_connected')`)) === true,
      60_000,
    )
    // A program of the sandbox finds the display, and its window is seen in the browser.
    const pixel = `(() => {
      const canvas = document.querySelector('#noVNC_container canvas')
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
      let red = 0
      for (let at = 0; at < data.length; at += 4) if (data[at] > 200 && data[at + 1] < 60 && data[at + 2] < 60) red++
      return red
    })()`
    const before = await browser.evaluate(pixel)
    assert.ok(Number(before) < 1000, `${before}`)
    const window = world.start(['exec', '--', 'xterm', '-bg', 'red', '-geometry', '60x15+500+300'], { cwd })
    await until('a red window is seen', async () => Number(await browser.evaluate(pixel)) > 20_000, 60_000)
    assert.ok((await keep('desktop', browser)).length > 5000)
    window.kill('SIGKILL')
  } finally {
    child.kill('SIGINT')
    await new Promise((resolve) => child.once('close', resolve))
  }
})

test('LIFE-4 a desktop starts on an image with apt, as an ordinary user, and one without apt is refused first', {
  skip: noOrdinaryUser() || NO_DEBIAN || NO_BUSYBOX,
  timeout: 30 * 60_000,
}, async () => {
  await using registry = await ToyRegistry.start()
  const withApt = registry.put('tests/debian', '12', debianImages().python)
  const without = registry.put('tests/busybox', '1', makeImage({ layers: [busyboxFiles()] }))
  using user = makeOrdinaryUser()
  const own = join(user.home, 'state')
  const cwd = join(user.home, 'shop')
  for (const path of [own, cwd]) {
    mkdirSync(path, { mode: 0o700 })
    chownSync(path, user.uid, user.gid)
  }
  await using theirs = new World({ home: own, as: user })
  writeFileSync(
    join(own, 'config.toml'),
    `[registries."${registry.host}"]\ninsecure = true\n[grants]\nimages = true\n`,
  )
  const choose = (image: string, addon: string): void =>
    writeFileSync(
      join(cwd, 'agentpod.toml'),
      `[environment]\nimage = "${image}"\n[addons]\n${addon} = true\n[lifecycle]\ndev = "echo begun"\n`,
    )
  for (const addon of ['gui', 'code-server']) {
    choose(without, addon)
    const refused = await theirs.cli(['dev'], { cwd })
    assert.notEqual(refused.code, 0)
    assert.match(refused.stderr, /the image has no apt-get, which .*\[addons\] need; install/)
    assert.equal(refused.stdout, '')
  }
  choose(withApt, 'gui')
  const { code, stdout, stderr } = await theirs.cli(['dev'], { cwd, timeoutMs: 20 * 60_000 })
  assert.equal(code, 0, stderr)
  assert.equal(stdout, 'begun\n')
  assert.match(stderr, /^ready: gui$/m)
  assert.match(stderr, /^http\S+ {2}Desktop \(this address works once/m)
})
