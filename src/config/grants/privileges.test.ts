/** What a project may have only when its user grants it, beside the network. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import type { PermissionDecision, PermissionRule } from '../../core/permission.ts'
import { parseUser, readProject, readUser } from '../config-files.ts'
import { type NetworkWish, wishOf } from '../network/network-table.ts'
import { onlyGranted, type ProjectData, projectWish } from '../project/data.ts'
import { parseProject } from '../project/project-file.ts'
import { problemsIn } from '../toml/problem.ts'
import { combine, describeApprovalRequest } from './combine.ts'

const scratch = mkdtempSync(join(tmpdir(), 'agentpod-privileges-'))
after(() => rmSync(scratch, { recursive: true }))

const data = (text: string): ProjectData => parseProject({ file: 'agentpod.toml', text }).data
const user = (text: string): NetworkWish => parseUser({ file: 'config.toml', text })

const WANTS = `
[environment]
sudo = true
[ports]
3000 = { public = true }
8080 = { public = true }
9090 = {}
[agents.permissions]
bash = "allow"
network = "allow"
mcp = "deny"
`
const wanted = data(WANTS)
const LINES = [
  'programs in the sandbox may become root there (sudo)',
  'port 3000 open to anyone who has its address',
  'port 8080 open to anyone who has its address',
  'agents may use network without asking',
]

const all = (decision: PermissionDecision): readonly PermissionRule[] => [{ pattern: '*', decision }]

const asks = (grants: string, project = wanted): string[] => {
  const { asked } = combine(user(grants), projectWish(project))
  return asked ? describeApprovalRequest(asked) : []
}

describe('CF-02: what a project wants beside the network', () => {
  test('privileges are part of the one question, missing before the approval, and granted after it', () => {
    const first = combine(user(''), projectWish(wanted))
    assert.ok(first.asked)
    assert.deepEqual(describeApprovalRequest(first.asked), LINES)
    const without = onlyGranted(wanted, first.wish)
    assert.equal(without.environment.sudo, false)
    assert.ok(without.ports.every(({ isPublic }) => !isPublic))
    assert.deepEqual(without.agents.permissions, { bash: all('allow'), mcp: all('deny') })
    const { hash } = first.asked
    const then = combine(user(''), projectWish(wanted), (given) => given === hash)
    assert.equal(then.asked, undefined)
    const { environment, ports, agents } = onlyGranted(wanted, then.wish)
    assert.equal(environment.sudo, true)
    assert.deepEqual(
      ports.map(({ port, isPublic }) => [port, isPublic]),
      [
        [3000, true],
        [8080, true],
        [9090, false],
      ],
    )
    assert.deepEqual(agents.permissions, {
      bash: all('allow'),
      mcp: all('deny'),
      network: all('allow'),
    })
  })

  test('privileges that the user’s file grants need no question', () => {
    assert.deepEqual(asks('[grants]\nsudo = true\nports = true\npermissions = ["network"]'), [])
    assert.deepEqual(asks('[grants]\nsudo = true'), LINES.slice(1))
    assert.deepEqual(asks('[grants]\nports = [3000]'), LINES.toSpliced(1, 1))
    assert.deepEqual(asks('[grants]\nports = false\npermissions = ["mcp", "network"]'), LINES.toSpliced(3, 1))
    const { wish } = combine(user('[grants]\nports = [3000]'), projectWish(wanted))
    assert.deepEqual(wish.privileges, { sudo: false, ports: [3000], permissions: ['bash'] })
  })

  test('privileges need approval if the user’s own file is stricter', () => {
    assert.deepEqual(asks('[agents.permissions]\nbash = { "*" = "allow", "git push*" = "ask" }'), [
      ...LINES.slice(0, 3),
      'agents may use bash without asking',
      'agents may use network without asking',
    ])
    assert.deepEqual(asks('[agents.permissions]\nnetwork = "allow"'), LINES.slice(0, 3))
  })

  test('a grant gives nothing to a project that does not want it', () => {
    const { wish, asked } = combine(user('[grants]\nsudo = true\nports = true'), projectWish(data('')))
    assert.equal(asked, undefined)
    assert.equal(wish.privileges, undefined)
    assert.equal(onlyGranted(data(''), wish).environment.sudo, false)
  })

  test('user = "root" needs the same approval as sudo', () => {
    const root = data('[environment]\nuser = "root"')
    assert.deepEqual(asks('', root), LINES.slice(0, 1))
    assert.equal(onlyGranted(root, combine(user(''), projectWish(root)).wish).environment.user, undefined)
    const { wish } = combine(user('[grants]\nsudo = true'), projectWish(root))
    assert.equal(onlyGranted(root, wish).environment.user, 'root')
  })

  test('CF-04 a Dockerfile is asked about with the images that it names, and needs all of them', () => {
    const written = data('[environment]\ndockerfile = "app.docker"')
    const { dockerfile } = written.environment
    assert.ok(dockerfile)
    const file = {
      ...written,
      environment: { ...written.environment, dockerfile: { ...dockerfile, images: ['node:22', 'tools:1'] } },
    }
    const image = (name: string): string => `the image ${name}, whose programs may run as root in the sandbox`
    const own = 'the Dockerfile app.docker, whose steps run as root in sandboxes'
    assert.deepEqual(asks('', file), [image('node:22'), image('tools:1'), own])
    assert.deepEqual(asks('[grants]\nimages = true', file), [own])
    assert.deepEqual(asks('[grants]\ndockerfiles = ["app.docker"]\nimages = ["node:22"]', file), [
      image('tools:1'),
    ])
    for (const grants of ['images = true', 'dockerfiles = true', 'dockerfiles = ["other"]\nimages = true']) {
      const { wish } = combine(user(`[grants]\n${grants}`), projectWish(file))
      assert.equal(onlyGranted(file, wish).environment.dockerfile, undefined, grants)
    }
    const { wish } = combine(user('[grants]\nimages = true\ndockerfiles = true'), projectWish(file))
    assert.deepEqual(onlyGranted(file, wish).environment.dockerfile?.images, ['node:22', 'tools:1'])
  })

  test('an image is asked about, by the name that the file has for it', () => {
    const file = data('[environment]\nimage = "node:22"')
    const line = 'the image node:22, whose programs may run as root in the sandbox'
    assert.deepEqual(asks('', file), [line])
    assert.deepEqual(asks('[grants]\nsudo = true\nimages = ["node", "node:20"]', file), [line])
    assert.deepEqual(asks('[grants]\nimages = ["node:22"]', file), [])
    assert.deepEqual(asks('[grants]\nimages = true', file), [])
    const { wish, asked } = combine(user(''), projectWish(file))
    assert.equal(onlyGranted(file, wish).environment.image, undefined)
    const named = data('[environment]\nbase = "image"\nimage = "node:22"')
    assert.equal(onlyGranted(named, combine(user(''), projectWish(named)).wish).environment.base, undefined)
    const then = combine(user(''), projectWish(file), (hash) => hash === asked?.hash)
    assert.equal(onlyGranted(file, then.wish).environment.image, 'node:22')
  })

  test('what narrows is not asked for', () => {
    const modest =
      '[environment]\nsudo = false\nuser = "node"\n[ports]\n80 = { public = false }\n[agents.permissions]\nbash = "ask"\nmcp = "deny"'
    assert.deepEqual(asks('', data(modest)), [])
  })

  test('another wish is another question', () => {
    const hashes = [
      WANTS,
      '[environment]\nsudo = true',
      '[ports]\n3000 = { public = true }',
      '[ports]\n3001 = { public = true }',
      '[agents.permissions]\nnetwork = "allow"',
      '[network]\npresets = ["npm"]',
      '[environment]\nsudo = true\n[network]\npresets = ["npm"]',
      '[environment]\nimage = "node:22"',
      '[environment]\nimage = "node:24"',
    ].map((text) => combine(user(''), projectWish(data(text))).asked?.hash)
    assert.equal(new Set(hashes).size, hashes.length)
  })

  test('what was approved when there was only the network stays approved', () => {
    const file = data(`
      [network]
      mode = "open"
      presets = ["npm", "github"]
      allow = ["example.com", "api.example.org:8443"]
      [secrets]
      KEY = {}
    `)
    const before = wishOf({ network: { allow: ['example.com'] } }, 'user')
    assert.equal(
      combine(before, projectWish(file)).asked?.hash,
      '76a1abd23c8a8c1bd08a903bef0fdf2617661c69efc7cd48d6657ba9535906bd',
    )
  })
})

describe('the files', () => {
  test('say so', () => {
    writeFileSync(join(scratch, 'agentpod.toml'), WANTS)
    writeFileSync(
      join(scratch, 'config.toml'),
      '[grants]\nsudo = true\nports = [80]\npermissions = ["mcp"]\n',
    )
    assert.deepEqual(readProject(scratch)?.privileges, {
      sudo: true,
      ports: [3000, 8080],
      permissions: ['bash', 'network'],
    })
    assert.deepEqual(readUser(scratch).privileges, {
      sudo: true,
      ports: [80],
      permissions: ['bash', 'write', 'mcp'],
    })
  })

  for (const [text, expected] of [
    ['[grants]\nsduo = true', '2:1 unknown key grants.sduo'],
    ['[grants]\nports = "all"', '2:9 grants.ports: must be true or false or a list, not a string'],
    ['[grants]\nports = [0]', '2:10 grants.ports.0: must be a port, a whole number from 1 to 65535'],
    [
      '[grants]\npermissions = ["bahs"]',
      '2:16 grants.permissions.0: must be "bash", "write", "mcp" or "network", not "bahs"',
    ],
    ['[environment]\nsudo = true', '1:2 unknown key environment'],
  ] as const)
    test(`${JSON.stringify(text)} is refused in the user’s`, () => {
      try {
        user(text)
        assert.fail('it was taken')
      } catch (error) {
        const [problem] = problemsIn(error) ?? []
        assert.equal(`${problem?.line}:${problem?.column} ${problem?.message}`, expected)
      }
    })

  test('a project’s file cannot have a table of grants', () =>
    assert.throws(() => data('[grants]\nsudo = true'), /unknown key grants/))
})
