// Builds recipes into layers, on a real engine and a fake provider: what is built, what is reused, and what a
// failure leaves.

import assert from 'node:assert/strict'
import { existsSync, readdirSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import type { BuildEvent } from '../../src/build/build-request.ts'
import { type AgentPodError, type ErrorCode, isAgentPodError } from '../../src/core/error.ts'
import type { SandboxId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { Recipe } from '../../src/core/recipe.ts'
import { settled } from '../../src/testing/fake-clock.ts'
import { ALICE, archive, BOB, BuildStage, recipe, step } from '../support/build-stage.ts'

let stage: BuildStage
beforeEach(async () => {
  stage = await new BuildStage().open()
})
afterEach(() => stage.close())

async function fails(work: Promise<unknown>, code: ErrorCode, reason: string): Promise<AgentPodError> {
  try {
    await work
  } catch (error) {
    assert.ok(isAgentPodError(error, code), String(error))
    assert.equal(error.reason, reason)
    return error
  }
  assert.fail('it did not fail')
}

const THREE = recipe(step('one'), step('two'), step('three'))

describe('a build', () => {
  test('a build makes a layer for each step, on those below', async () => {
    const { steps, events } = await stage.build(THREE)
    assert.deepEqual(steps, [
      'one started (it was never built)',
      'two started (it was never built)',
      'three started (it was never built)',
    ])
    stage.isClean(3)
    const done = events.filter((event) => event.kind === 'step' && event.state === 'done')
    assert.deepEqual(
      done.map((event) => event.kind === 'step' && [event.name, event.number, event.of, event.sizeBytes]),
      [
        ['one', 1, 3, 3],
        ['two', 2, 3, 3],
        ['three', 3, 3, 5],
      ],
    )
    const digest = await stage.digest(THREE)
    assert.deepEqual(await stage.filesOf(digest), {
      '/layers/one': 'one',
      '/layers/two': 'two',
      '/layers/three': 'three',
    })
  })

  test('a build on an image keeps the digest that its name stood for', async () => {
    const on = (image: string): Recipe => ({ base: { name: 'image', image }, steps: [step('one')] })
    const digest = await stage.digest(on('node:22'))
    const { base } = stage.engine.layers.list().find(({ layer }) => layer.key === digest)?.layer ?? {}
    assert.equal(base?.image, 'node:22')
    assert.match(base?.digest ?? '', /^sha256:[0-9a-f]{64}$/)
    const { spec } = await stage.engine.sandboxes.create({ environment: { digest } }, LOCAL)
    assert.deepEqual([spec.environment.base, spec.environment.image], ['image', 'node:22'])
    assert.notEqual(await stage.digest(on('node:24')), digest)
    const extra = { extras: [digest] }
    await stage.engine.sandboxes.create({ environment: { base: 'image', image: 'node:22', ...extra } }, LOCAL)
    await fails(
      stage.engine.sandboxes.create({ environment: { base: 'image', image: 'node:24', ...extra } }, LOCAL),
      'invalid_argument',
      'environment.extras',
    )
  })

  test('a sandbox on an image runs as the image’s user unless another one is named', async () => {
    const image = { base: 'image', image: 'node:22' } as const
    const userOf = async (environment: object): Promise<string> =>
      (await stage.engine.sandboxes.create({ environment: { ...image, ...environment } }, LOCAL)).spec
        .environment.user
    assert.equal(await userOf({}), 'node')
    assert.equal(await userOf({ user: 'root' }), 'root')
    assert.equal((await stage.engine.sandboxes.create({}, LOCAL)).spec.environment.user, 'user')
  })

  test('a second build finds every layer', async () => {
    const first = await stage.digest(THREE)
    const before = stage.provider.calls.length
    const { result, steps } = await stage.build(THREE)
    assert.deepEqual(result, { kind: 'built', digest: first, base: undefined, sizeBytes: 11 })
    assert.deepEqual(steps, ['one cached', 'two cached', 'three cached'])
    assert.equal(stage.provider.calls.length, before, 'the provider was not asked')
  })

  test('a build without steps is its base', async () => {
    assert.deepEqual((await stage.build(recipe())).result, {
      kind: 'built',
      digest: undefined,
      base: undefined,
      sizeBytes: 0,
    })
  })

  test('a build runs each step with its user, directory, variables and PATH', async () => {
    const one = step('one', {
      run: 'id; pwd; printenv A; printenv PATH',
      user: 'user',
      workdir: '/srv',
      variables: { A: 'b' },
      path: ['/opt/x/bin'],
    })
    const { events } = await stage.build(recipe(one))
    const said = events.map((event) => (event.kind === 'output' ? event.data.toString() : '')).join('')
    assert.equal(said, 'user\n/srv\nb\n/opt/x/bin:/usr/local/bin:/usr/bin:/bin\n')
  })

  test('a build step reaches only the hosts that it names', async () => {
    const specs: unknown[] = []
    stage.provider.onCreate = ({ sandboxId }) => {
      const { environment, network } = stage.engine.sandboxes.get(sandboxId, LOCAL).spec
      specs.push([environment.sudo, network.mode, network.rules.map(({ host }) => host), network.cache])
    }
    await stage.build(
      recipe(
        step('one', { network: [{ host: 'npm.example.com', source: 'create' }] }),
        step('two', { user: 'user' }),
      ),
    )
    assert.deepEqual(specs, [
      [true, 'allowlist', ['npm.example.com'], true],
      [false, 'off', [], true],
    ])
  })

  test('a build holds a step back while no client reads its output', async () => {
    const seen: string[] = []
    let go = (): void => undefined
    const building = stage.build(recipe(step('one', { run: 'echo a; echo b; write /x y' })), {
      onEvent: (event: BuildEvent) => {
        if (event.kind !== 'output') return
        seen.push(event.data.toString())
        return new Promise<void>((resolve) => {
          go = resolve
        })
      },
    })
    while (seen.length === 0) await settled()
    for (let i = 0; i < 20; i++) await settled()
    assert.deepEqual(seen, ['a\n'], 'the second piece waits')
    go()
    while (seen.length === 1) await settled()
    go()
    await building
  })
})

describe('reasons for a rebuild', () => {
  const lock = (text: string): ReturnType<typeof archive> =>
    archive({ 'package-lock.json': text, 'package.json': '{}' })
  const of = (o: { files?: ReturnType<typeof archive>; run?: string; a?: string } = {}): Recipe =>
    recipe(
      step('system'),
      step('dependencies', {
        ...(o.files && { files: o.files.files }),
        run: o.run ?? 'echo ok',
        variables: { A: o.a ?? '1' },
      }),
      step('last'),
    )

  test('ENV-5 a changed input rebuilds its step and those after it', async () => {
    const [old, now] = [lock('1'), lock('2')]
    await stage.upload(old.data)
    await stage.build(of({ files: old }))
    await stage.upload(now.data)
    const { steps } = await stage.build(of({ files: now }))
    assert.deepEqual(steps, [
      'system cached',
      'dependencies started (changed: package-lock.json)',
      'last started (a step before it changed)',
    ])
    assert.equal(stage.engine.layers.list().length, 5)
    assert.deepEqual((await stage.build(of({ files: old }))).steps, [
      'system cached',
      'dependencies cached',
      'last cached',
    ])
  })

  const CHANGES: readonly (readonly [string, Recipe, string])[] = [
    ['a command', of({ run: 'echo other' }), 'changed: its command'],
    ['a variable', of({ a: '2' }), 'changed: variable A'],
    ['both', of({ run: 'echo other', a: '2' }), 'changed: its command, variable A'],
  ]
  for (const [what, changed, why] of CHANGES)
    test(`ENV-5 ${what} is named as the reason for a rebuild`, async () => {
      await stage.build(of())
      assert.equal((await stage.build(changed)).steps[1], `dependencies started (${why})`)
    })

  test('ENV-5 a changed base is named as the reason for a rebuild', async () => {
    const on = (tools: Record<string, string>): Recipe => ({
      ...recipe(step('one')),
      base: { name: 'host', tools },
    })
    await stage.build(on({ node: '20' }))
    assert.deepEqual((await stage.build(on({ node: '22' }))).steps, ['one started (the base changed: node)'])
  })

  test('ENV-5 a removed layer is named as the reason for a rebuild', async () => {
    await stage.build(recipe(step('one')))
    await stage.build(recipe(step('one'), step('two')))
    await stage.builder.prune({ keepBytes: 3, isDry: false })
    assert.deepEqual((await stage.build(recipe(step('one'), step('two')))).steps, [
      'one cached',
      'two started (it was never built)',
    ])
  })

  test('SECURITY: a rebuild tells nothing of what others built for a project of the same name', async () => {
    const secret = archive({ 'secret-plan.txt': 'x' })
    await stage.upload(secret.data, ALICE)
    const one = step('one', { files: secret.files, variables: { SECRET_NAME: '1' } })
    await stage.build(recipe(one), { who: ALICE })
    assert.deepEqual((await stage.build(recipe(step('one')), { who: BOB })).steps, [
      'one started (it was never built)',
    ])
    assert.match(
      (await stage.build(recipe(step('one', { run: 'echo' })), { who: ALICE })).steps[0] ?? '',
      /secret-plan/,
      'the control',
    )
  })
})

describe('two builds at once', () => {
  test('two equal builds at once build each step once', async () => {
    const builds = await Promise.all([stage.build(THREE), stage.build(THREE)])
    const steps = builds.flatMap(({ steps: said }) => said)
    assert.equal(steps.filter((one) => one.includes('started')).length, 3)
    assert.equal(steps.filter((one) => one.includes('cached')).length, 3)
    stage.isClean(3)
  })

  test('when the first of two equal builds fails, the second tries for itself', async () => {
    const bad = recipe(step('one', { run: 'exit 1' }))
    const results = await Promise.allSettled([stage.build(bad), stage.build(bad)])
    assert.deepEqual(
      results.map(({ status }) => status),
      ['rejected', 'rejected'],
    )
    stage.isClean(0)
  })

  test('of two builds that share files, the first to end does not remove them', async () => {
    const shared = archive({ a: '1' })
    await stage.upload(shared.data)
    const quick = recipe(step('quick', { files: shared.files }))
    const slow = recipe(
      step('before', { run: 'sleep 10' }),
      step('slow', { files: shared.files, run: 'echo' }),
    )
    const building = stage.build(slow)
    await settled()
    await stage.build(quick)
    while (stage.provider.existing.length === 0) await settled()
    await stage.clock.advance(10_000)
    await building
    assert.ok(!stage.files.has(LOCAL.owner, shared.files.digest), 'then they go')
  })

  test('a build that is canceled while it waits builds nothing', async () => {
    const one = recipe(step('one', { run: 'sleep 10' }), step('two'))
    const leave = new AbortController()
    const first = stage.build(one)
    const second = fails(stage.build(one, { signal: leave.signal }), 'canceled', 'canceled')
    await settled()
    leave.abort()
    await stage.clock.advance(10_000)
    await first
    await second
    stage.isClean(2)
  })
})

describe('a step that fails', () => {
  test('ENV-5 a step that fails leaves nothing of itself, and the layers before it', async () => {
    const error = await fails(
      stage.build(recipe(step('one'), step('two', { run: 'write /x y; exit 3' }), step('three'))),
      'failed_precondition',
      'build.step_failed',
    )
    assert.equal(error.message, 'the step "the step two" failed: exit code 3')
    assert.deepEqual(error.details, { step: 'two', command: 'write /x y; exit 3' })
    assert.match(error.hint ?? '', /--debug/)
    stage.isClean(1)
    assert.deepEqual((await stage.build(recipe(step('one'), step('two')))).steps[0], 'one cached')
  })

  test('the sandbox of a failed step is kept on request, for an hour', async () => {
    const bad = recipe(step('one', { run: 'write /x y; exit 3' }))
    const error = await fails(
      stage.build(bad, { who: ALICE, keepFailed: true }),
      'failed_precondition',
      'build.step_failed',
    )
    const id = String(error.details['sandbox'])
    const sandbox = stage.engine.sandboxes.get(id, ALICE)
    assert.equal(sandbox.state, 'running')
    assert.equal(sandbox.labels['agentpod/build'], 'failed')
    assert.equal(sandbox.deadlineAt, stage.clock.now() + 3_600_000)
    assert.equal(stage.provider.inside(sandbox.id).files.get('/x')?.toString(), 'y')
    assert.throws(() => stage.engine.sandboxes.get(id, BOB), 'it is nobody else’s')
    assert.equal(stage.engine.layers.list().length, 0)
    stage.engine.close()
    await stage.open()
    assert.equal(stage.engine.sandboxes.get(id, ALICE).state, 'running', 'a new server leaves it')
    await stage.engine.sandboxes.destroy(id, LOCAL)
  })

  test('ENV-5 a step that hangs is ended when its time is over', async () => {
    const building = stage.build(recipe(step('one', { run: 'sleep 9999', timeoutMs: 5000 })))
    const failed = fails(building, 'deadline_exceeded', 'build.step_late')
    while (stage.provider.existing.length === 0) await settled()
    for (let i = 0; i < 10; i++) await settled()
    await stage.clock.advance(5000)
    assert.equal((await failed).message, 'the step "the step one" failed: it did not finish within 5 seconds')
    stage.isClean(0)
  })

  test('the sandbox of a step that hangs is kept on request as well', async () => {
    const building = stage.build(recipe(step('one', { run: 'sleep 9999', timeoutMs: 5000 })), {
      keepFailed: true,
    })
    const failed = fails(building, 'deadline_exceeded', 'build.step_late')
    while (stage.provider.existing.length === 0) await settled()
    for (let i = 0; i < 10; i++) await settled()
    await stage.clock.advance(5000)
    await stage.engine.sandboxes.destroy(String((await failed).details['sandbox']), LOCAL)
  })

  test('ENV-5 a build whose client leaves leaves nothing', async () => {
    const leave = new AbortController()
    const building = stage.build(recipe(step('one', { run: 'echo a; sleep 9999' })), {
      signal: leave.signal,
      keepFailed: true,
      onEvent: (event) => {
        if (event.kind === 'output') leave.abort()
      },
    })
    await fails(building, 'canceled', 'canceled')
    stage.isClean(0)
  })

  test('ENV-5 a build whose client leaves without reading its output leaves nothing', async () => {
    const leave = new AbortController()
    let isAsked = false
    const building = stage.build(recipe(step('one', { run: 'echo a; sleep 9999' })), {
      signal: leave.signal,
      onEvent: (event) => {
        if (event.kind !== 'output') return
        isAsked = true
        return new Promise<void>(() => undefined)
      },
    })
    while (!isAsked) await settled()
    leave.abort()
    await fails(building, 'canceled', 'canceled')
    stage.isClean(0)
  })

  test('a step whose sandbox ended says so', async () => {
    const building = stage.build(recipe(step('one', { run: 'sleep 9999' })))
    while (stage.provider.existing.length === 0) await settled()
    for (let i = 0; i < 10; i++) await settled()
    for (const id of stage.provider.existing) stage.provider.exit(id, { oomKilled: true })
    await fails(building, 'unavailable', 'build.sandbox_ended')
    await settled()
    stage.isClean(0)
  })

  for (const call of ['create', 'configure', 'stop', 'snapshot'] as const)
    test(`ENV-5 a build in which the provider fails at ${call} leaves nothing`, async () => {
      stage.provider.fail(call, { times: 1, code: 'resource_exhausted' })
      await fails(stage.build(THREE), 'resource_exhausted', 'fake.fault')
      stage.isClean(0)
      await stage.build(THREE)
      stage.isClean(3)
    })

  test('a step whose sandbox cannot be destroyed either says why the step failed', async () => {
    stage.provider.fail('destroy', { times: 1 })
    await fails(
      stage.build(recipe(step('one', { run: 'exit 1' }))),
      'failed_precondition',
      'build.step_failed',
    )
    stage.engine.close()
    await stage.open()
    stage.isClean(0)
  })
})

describe('files', () => {
  const given = archive({ 'a.txt': 'hello', 'dir/b.txt': 'there' })
  const wanted = recipe(step('one', { files: given.files, run: '' }))

  test('missing files of a step are asked for, and then unpacked', async () => {
    assert.deepEqual((await stage.build(wanted)).result, { kind: 'needs', files: [given.files.digest] })
    stage.isClean(0)
    await stage.upload(given.data)
    assert.deepEqual(await stage.filesOf(await stage.digest(wanted)), {
      '/shop/a.txt': 'hello',
      '/shop/dir/b.txt': 'there',
    })
    assert.ok(!stage.files.has(LOCAL.owner, given.files.digest), 'they are gone when they have served')
  })

  test('files of a step are not asked for where the layer exists', async () => {
    await stage.upload(given.data)
    const digest = await stage.digest(wanted)
    assert.equal(await stage.digest(wanted), digest)
    assert.deepEqual((await stage.build(wanted, { again: 'one' })).result, {
      kind: 'needs',
      files: [given.files.digest],
    })
  })

  test('files of a failed step stay for the next time', async () => {
    await stage.upload(given.data)
    const bad = recipe(step('one', { files: given.files, run: 'exit 1' }))
    await fails(stage.build(bad), 'failed_precondition', 'build.step_failed')
    assert.ok(stage.files.has(LOCAL.owner, given.files.digest))
  })

  test('files that the disk has damaged make no layer', async () => {
    await stage.upload(given.data)
    const [file = ''] = readdirSync(join(stage.directory, 'files'))
    truncateSync(join(stage.directory, 'files', file), 512)
    await fails(stage.build(wanted), 'data_loss', 'build.digest')
    stage.isClean(0)
  })
})

describe('forced rebuilds', () => {
  test('a forced rebuild builds a step and those after it, although they exist', async () => {
    const digest = await stage.digest(THREE)
    const { steps, result } = await stage.build(THREE, { again: 'two' })
    assert.deepEqual(steps, [
      'one cached',
      'two started (a rebuild was requested)',
      'three started (a rebuild was requested)',
    ])
    assert.ok(result.kind === 'built' && result.digest === digest)
    stage.isClean(3)
  })

  test('a forced rebuild of an unknown step is an error that names the known ones', async () => {
    const error = await fails(stage.build(THREE, { again: 'tow' }), 'invalid_argument', 'build.again')
    assert.equal(error.hint, 'the steps are: one, two, three')
  })

  test('a forced rebuild of a layer that a sandbox uses is refused, and nothing is removed', async () => {
    const digest = await stage.digest(THREE)
    const { id } = await stage.engine.sandboxes.create({ environment: { digest } }, LOCAL)
    await fails(stage.build(THREE, { again: 'one' }), 'conflict', 'layer.used')
    assert.equal(stage.engine.layers.list().length, 3)
    await stage.engine.sandboxes.destroy(id, LOCAL)
    await stage.build(THREE, { again: 'one' })
  })

  test('a forced rebuild of a layer that another build uses is refused', async () => {
    await stage.build(recipe(step('one')))
    const leave = new AbortController()
    const other = stage.build(recipe(step('one'), step('slow', { run: 'sleep 9999' })), {
      signal: leave.signal,
    })
    while (stage.provider.existing.length === 0) await settled()
    await fails(stage.build(recipe(step('one')), { again: 'one' }), 'conflict', 'layer.used')
    leave.abort()
    await fails(other, 'canceled', 'canceled')
  })

  test('SECURITY: a forced rebuild of a layer that others use as well is only for admins', async () => {
    await stage.build(THREE, { who: ALICE })
    await stage.build(THREE, { who: ALICE, again: 'one' })
    await stage.build(THREE, { who: BOB })
    await fails(stage.build(THREE, { who: ALICE, again: 'one' }), 'permission_denied', 'layer.shared')
    assert.equal(stage.engine.layers.list().length, 3)
    await stage.build(THREE, { again: 'one' })
  })
})

describe('extras', () => {
  const agent = recipe(step('tools'), step('agent'))
  const names = (id: SandboxId): string[] =>
    [...stage.provider.inside(id).files.keys()].map((path) => path.replace('/layers/', '')).sort()
  const overOf = (id: SandboxId): readonly string[] => stage.engine.sandboxes.get(id, LOCAL).root?.over ?? []

  test('extras are the last layers of other recipes, over everything else', async () => {
    const digest = await stage.digest(THREE)
    const extras = [await stage.digest(agent), await stage.digest(recipe(step('other')))]
    const { id } = await stage.engine.sandboxes.create({ environment: { digest, extras } }, LOCAL)
    assert.deepEqual(names(id), ['agent', 'one', 'other', 'three', 'two'])
    const alone = await stage.engine.sandboxes.create({ environment: { extras } }, LOCAL)
    assert.deepEqual(names(alone.id), ['agent', 'other'])
    assert.deepEqual(overOf(id).slice(-2), overOf(alone.id), 'in their order')
    assert.deepEqual(alone.spec.environment.extras, extras)
  })

  test('extras lie below the files of a snapshot too, and stay with its copies', async () => {
    const [digest, extra, other] = [
      await stage.digest(THREE),
      await stage.digest(agent),
      await stage.digest(recipe(step('other'))),
    ]
    const first = await stage.engine.sandboxes.create({ environment: { digest } }, LOCAL)
    stage.provider.inside(first.id).files.set('/layers/own', Buffer.from('own'))
    await stage.engine.snapshots.create(first.id, { name: 'project' }, LOCAL)
    const second = await stage.engine.sandboxes.create(
      { snapshot: 'project', environment: { extras: [extra] } },
      LOCAL,
    )
    assert.deepEqual(names(second.id), ['agent', 'one', 'own', 'three', 'two'])
    await stage.engine.sandboxes.stop(second.id, LOCAL)
    await stage.engine.sandboxes.start(second.id, LOCAL)
    assert.deepEqual(names(second.id), ['agent', 'one', 'own', 'three', 'two'])
    await stage.engine.snapshots.create(second.id, { name: 'begun' }, LOCAL)
    const third = await stage.engine.sandboxes.create(
      {
        snapshot: 'begun',
        environment: { extras: [extra, other, other] },
      },
      LOCAL,
    )
    assert.deepEqual(names(third.id), ['agent', 'one', 'other', 'own', 'three', 'two'])
    assert.deepEqual(third.spec.environment.extras, [extra, other])
    assert.equal(new Set(overOf(third.id)).size, overOf(third.id).length, 'none is there twice')
    const [forked] = await stage.engine.sandboxes.fork(third.id, {}, LOCAL)
    assert.ok(forked && 'sandbox' in forked)
    assert.deepEqual(names(forked.sandbox.id), names(third.id))
    assert.deepEqual(forked.sandbox.spec.environment.extras, [extra, other])
  })

  test('ENV-10 extras are not removed while a sandbox or a snapshot uses them, or one is being created', async () => {
    const extra = await stage.digest(agent)
    const prune = async (): Promise<number> =>
      (await stage.builder.prune({ keepBytes: 0, isDry: false })).removed.length
    let during: Promise<number> | undefined
    stage.provider.onCreate = () => {
      during = prune()
    }
    const { id } = await stage.engine.sandboxes.create({ environment: { extras: [extra] } }, LOCAL)
    assert.equal(await during, 0)
    stage.provider.onCreate = () => undefined
    await stage.engine.snapshots.create(id, { name: 'shot' }, LOCAL)
    await stage.engine.sandboxes.destroy(id, LOCAL)
    assert.equal(await prune(), 0)
    await stage.engine.snapshots.remove('shot', LOCAL)
    assert.equal(await prune(), 2)
    stage.isClean(0)
  })

  test('SECURITY: extras are only for the owners who built them', async () => {
    const extra = await stage.digest(agent, { who: ALICE })
    const make = (who: typeof ALICE): Promise<unknown> =>
      stage.engine.sandboxes.create({ owner: who.owner, environment: { extras: [extra] } }, who)
    await make(ALICE)
    await fails(make(BOB), 'not_found', 'environment.unknown')
    await stage.build(agent, { who: BOB })
    await make(BOB)
  })

  test('extras on another base, unknown ones, or too many are refused before anything is created', async () => {
    const extra = await stage.digest(agent)
    const digest = (n: number): string => n.toString(16).padStart(64, '0')
    await fails(
      stage.engine.sandboxes.create({ environment: { base: 'debian', extras: [extra] } }, LOCAL),
      'invalid_argument',
      'environment.extras',
    )
    await fails(
      stage.engine.sandboxes.create({ environment: { extras: [extra, digest(1)] } }, LOCAL),
      'not_found',
      'environment.unknown',
    )
    await fails(
      stage.engine.sandboxes.create(
        { environment: { extras: Array.from({ length: 17 }, (_, n) => digest(n)) } },
        LOCAL,
      ),
      'invalid_argument',
      'environment.extras',
    )
    stage.isClean(2)
  })
})

describe('SECURITY: owners of layers', () => {
  test('SECURITY: a digest is useful only to the owners who built it, and to admins', async () => {
    const digest = await stage.digest(THREE, { who: ALICE })
    const make = (who: typeof ALICE): Promise<unknown> =>
      stage.engine.sandboxes.create({ owner: who.owner, environment: { digest } }, who)
    await make(ALICE)
    await make(LOCAL)
    const error = await fails(make(BOB), 'not_found', 'environment.unknown')
    const never = await fails(
      stage.engine.sandboxes.create({ owner: BOB.owner, environment: { digest: '0'.repeat(64) } }, BOB),
      'not_found',
      'environment.unknown',
    )
    assert.equal(
      error.message.replaceAll(/[0-9a-f]{12}/g, ''),
      never.message.replaceAll(/[0-9a-f]{12}/g, ''),
      'as unknown as one that never was',
    )
    assert.equal((await stage.build(THREE, { who: BOB })).steps[0], 'one cached')
    await make(BOB)
  })

  test('SECURITY: ownership of layers survives a server restart', async () => {
    const digest = await stage.digest(THREE, { who: ALICE })
    stage.engine.close()
    await stage.open()
    await stage.engine.sandboxes.create({ owner: ALICE.owner, environment: { digest } }, ALICE)
    await fails(
      stage.engine.sandboxes.create({ owner: BOB.owner, environment: { digest } }, BOB),
      'not_found',
      'environment.unknown',
    )
  })

  test('SECURITY: a layer built from files is only for owners who have the files', async () => {
    const given = archive({ 'private.txt': 'x' })
    const wanted = recipe(step('one', { files: given.files }))
    await stage.upload(given.data, ALICE)
    await stage.build(wanted, { who: ALICE })
    assert.deepEqual((await stage.build(wanted, { who: BOB })).result, {
      kind: 'needs',
      files: [given.files.digest],
    })
    await stage.upload(given.data, BOB)
    assert.deepEqual((await stage.build(wanted, { who: BOB })).steps, ['one cached'])
    assert.ok(!stage.files.has(BOB.owner, given.files.digest))
  })

  test('SECURITY: only an admin gets into a sandbox that becomes a layer', async () => {
    let seen = 0
    const wanted = recipe(step('one', { run: 'echo a; sleep 5' }))
    const building = stage.build(wanted, { who: ALICE })
    while (stage.provider.existing.length === 0) await settled()
    for (let i = 0; i < 10; i++) await settled()
    for (const id of stage.provider.existing) {
      seen++
      assert.throws(
        () => stage.engine.sandboxes.get(id, ALICE),
        (error) => isAgentPodError(error, 'not_found'),
      )
      assert.throws(
        () => stage.engine.guests.connection(id, ALICE),
        (error) => isAgentPodError(error, 'not_found'),
      )
      assert.equal(stage.engine.sandboxes.get(id, LOCAL).labels['agentpod/asked-by'], ALICE.owner)
    }
    assert.equal(seen, 1)
    await stage.clock.advance(5000)
    await building
    assert.deepEqual(stage.engine.sandboxes.list({ labels: {}, all: true }, ALICE), [])
  })

  test('SECURITY: layers are not snapshots that anybody lists or uses', async () => {
    await stage.build(THREE)
    assert.deepEqual(stage.engine.snapshots.list(LOCAL), [])
    const id = stage.engine.layers.list()[0]?.id ?? ''
    assert.throws(
      () => stage.engine.snapshots.get(id, LOCAL),
      (error) => isAgentPodError(error, 'not_found'),
    )
    await fails(stage.engine.snapshots.remove(id, LOCAL), 'not_found', 'snapshot.unknown')
  })

  test('SECURITY: the network cap of a key holds for its builds', async () => {
    const who = {
      ...ALICE,
      network: { mode: 'allowlist' as const, rules: [{ host: 'npm.example.com', source: 'user' as const }] },
    }
    const reach = (host: string): Recipe => recipe(step('one', { network: [{ host, source: 'create' }] }))
    await stage.build(reach('npm.example.com'), { who })
    await fails(stage.build(reach('evil.example.com'), { who }), 'permission_denied', 'network.beyond_key')
    stage.isClean(1)
  })
})

describe('prune', () => {
  const other = recipe(step('one'), step('alone', { run: 'write /x aaaaa' }))

  test('ENV-10 prune removes the least recently used layers, and never one in use', async () => {
    await stage.build(THREE)
    await stage.clock.advance(7_200_000)
    await stage.build(other)
    const titles = (list: readonly { title: string }[]): string[] => list.map(({ title }) => title)
    const dry = await stage.builder.prune({ keepBytes: 8, isDry: true })
    assert.deepEqual(titles(dry.removed), ['the step three', 'the step two'])
    assert.equal(stage.engine.layers.list().length, 4, 'a dry run removes nothing')
    assert.deepEqual(await stage.builder.prune({ keepBytes: 8, isDry: false }), dry)
    assert.equal(dry.keptBytes, 8)
    const all = await stage.builder.prune({ keepBytes: 0, isDry: false })
    assert.deepEqual(titles(all.removed), ['the step alone', 'the step one'])
    stage.isClean(0)
  })

  test('ENV-10 prune keeps the layers of sandboxes and snapshots, and says so before', async () => {
    const digest = await stage.digest(THREE)
    const { id } = await stage.engine.sandboxes.create({ environment: { digest } }, LOCAL)
    const nothing = { removed: [], keptBytes: 11 }
    assert.deepEqual(await stage.builder.prune({ keepBytes: 0, isDry: true }), nothing)
    assert.deepEqual(await stage.builder.prune({ keepBytes: 0, isDry: false }), nothing)
    await stage.engine.snapshots.create(id, { name: 'shot' }, LOCAL)
    await stage.engine.sandboxes.destroy(id, LOCAL)
    assert.deepEqual(await stage.builder.prune({ keepBytes: 0, isDry: false }), nothing)
    await stage.engine.snapshots.remove('shot', LOCAL)
    assert.equal((await stage.builder.prune({ keepBytes: 0, isDry: false })).removed.length, 3)
    stage.isClean(0)
  })

  test('ENV-10 prune keeps the layers that a running build has found', async () => {
    await stage.build(THREE)
    const leave = new AbortController()
    const building = stage.build(recipe(step('one'), step('slow', { run: 'sleep 10' })), {
      signal: leave.signal,
    })
    while (stage.provider.existing.length === 0) await settled()
    const { removed } = await stage.builder.prune({ keepBytes: 0, isDry: false })
    assert.deepEqual(
      removed.map(({ title }) => title),
      ['the step three', 'the step two'],
    )
    for (let i = 0; i < 10; i++) await settled()
    await stage.clock.advance(10_000)
    await building
    stage.isClean(2)
  })

  test('during a prune, each new sandbox has its files or an error, and nothing is left', async () => {
    for (let round = 0; round < 20; round++) {
      const digest = await stage.digest(THREE)
      const made = Promise.allSettled(
        Array.from({ length: 3 }, () => stage.engine.sandboxes.create({ environment: { digest } }, LOCAL)),
      )
      for (let i = 0; i < round % 7; i++) await Promise.resolve()
      await stage.builder.prune({ keepBytes: 0, isDry: false })
      for (const one of await made) {
        if (one.status === 'rejected') assert.ok(isAgentPodError(one.reason, 'not_found'), String(one.reason))
        else {
          assert.equal(stage.provider.inside(one.value.id).files.size, 3)
          await stage.engine.sandboxes.destroy(one.value.id, LOCAL)
        }
      }
    }
    await stage.builder.prune({ keepBytes: 0, isDry: false })
    stage.isClean(0)
  })

  test('a prune that fails for one layer continues with the others', async () => {
    await stage.build(THREE)
    await stage.build(other)
    stage.provider.fail('unsnapshot', { times: 1, code: 'conflict' })
    await stage.builder.prune({ keepBytes: 0, isDry: false })
    stage.provider.heal()
    // What could not be removed then is removed by the sweep; what it stood on by the next prune.
    await stage.clock.advance(3000)
    for (let i = 0; i < 20; i++) await settled()
    await stage.builder.prune({ keepBytes: 0, isDry: false })
    stage.isClean(0)
  })
})

describe('a new server', () => {
  test('a new server ends the builds of an earlier one, and finds its layers', async () => {
    const first = stage.build(recipe(step('one'), step('two', { run: 'sleep 9999' })))
    first.catch(() => undefined)
    while (stage.engine.layers.list().length === 0 || stage.provider.existing.length === 0) await settled()
    const mine = await stage.engine.sandboxes.create({ labels: { 'agentpod/build': 'step' } }, LOCAL)
    stage.engine.close()
    await stage.open()
    assert.deepEqual(stage.provider.existing, [mine.id], 'a label is no sandbox of a build')
    await stage.engine.sandboxes.destroy(mine.id, LOCAL)
    assert.deepEqual((await stage.build(recipe(step('one'), step('two')))).steps[0], 'one cached')
  })

  test('a new server forgets layers that are gone, and those on top of them', async () => {
    await stage.build(THREE)
    const middle = stage.engine.layers.list().find(({ layer }) => layer.step.name === 'two')
    stage.engine.close()
    stage.provider.loseSnapshot(middle?.id as never)
    await stage.open()
    assert.deepEqual(
      stage.engine.layers.list().map(({ layer }) => layer.step.name),
      ['one'],
    )
    assert.equal(stage.provider.kept.length, 1)
    const { steps } = await stage.build(THREE)
    assert.deepEqual(
      steps.map((one) => one.split(' ').slice(0, 2).join(' ')),
      ['one cached', 'two started', 'three started'],
    )
  })

  test('a new server removes drafts and unclaimed files', async () => {
    await stage.upload(Buffer.from('x'))
    const directory = join(stage.directory, 'files')
    writeFileSync(join(directory, '.tmp-abc'), 'half')
    const now = stage.clock.now() / 1000
    for (const name of readdirSync(directory)) utimesSync(join(directory, name), now, now)
    stage.engine.close()
    await stage.open()
    assert.equal(readdirSync(directory).length, 1)
    await stage.clock.advance(25 * 3_600_000)
    stage.engine.close()
    await stage.open()
    assert.deepEqual(readdirSync(directory), [])
    assert.ok(existsSync(directory))
  })
})

describe('invalid recipes', () => {
  test('a recipe with two steps of one name is refused', async () => {
    await fails(stage.build(recipe(step('one'), step('one'))), 'invalid_argument', 'recipe.steps')
  })
  test('a step with too much text is refused', async () => {
    const variables = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`A${n}`, 'x'.repeat(20_000)]))
    await fails(stage.build(recipe(step('one', { variables }))), 'invalid_argument', 'recipe.large')
  })

  test('SECURITY: CP-16. the file lists of very large inputs are not remembered', async () => {
    const { data, files } = archive({ a: 'x' })
    const entries = Object.fromEntries(
      Array.from({ length: 5000 }, (_, n) => [`a/file/of/some/length/${n}`, '1']),
    )
    await stage.upload(data)
    await stage.build(recipe(step('one', { files: { ...files, entries } })))
    assert.deepEqual(stage.engine.layers.list()[0]?.layer.step.files?.entries, {})
  })

  test('a recipe with too many steps is refused', async () => {
    const many = recipe(...Array.from({ length: 101 }, (_, n) => step(`s${n}`)))
    await fails(stage.build(many), 'invalid_argument', 'recipe.steps')
  })
})
