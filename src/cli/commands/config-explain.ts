/** `agentpod config explain` and `agentpod config lock`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentPod } from '../../client/client.ts'
import { composeText } from '../../config/compose/write-compose.ts'
import { PROJECT_FILE, readProjectFile } from '../../config/config-files.ts'
import { placeText } from '../../config/evidence.ts'
import { evidenceText } from '../../config/evidence-text.ts'
import { explainPlan } from '../../config/plan/explain.ts'
import { LOCK_FILE, lockText } from '../../config/plan/lock.ts'
import type { Plan } from '../../config/plan/plan.ts'
import { AgentPodError } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { composeRequest } from '../../workbench/compose/approve-compose.ts'
import { composePlan, unusedNotes } from '../../workbench/compose/compose-plan.ts'
import { explainCompose } from '../../workbench/compose/explain-compose.ts'
import { type ComposeChoice, usedCompose } from '../../workbench/compose/used-compose.ts'
import { buildCallbacks } from '../../workbench/environment/build-callbacks.ts'
import { detectProject, treeOf } from '../../workbench/environment/detect-project.ts'
import { ephemeralWishes, explainEphemeral } from '../../workbench/environment/ephemeral-directories.ts'
import {
  buildPlan,
  environmentOf,
  type PreparedPlan,
  planOnly,
  planProject,
} from '../../workbench/environment/plan-environment.ts'
import { explainVolumes } from '../../workbench/environment/project-volumes.ts'
import { isFileGranted } from '../../workbench/network/prepare-network.ts'
import { openProject, type Project } from '../../workbench/project/open-project.ts'
import { composeOptions, devcontainerOptions, imageOption } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'
import { BuildLog } from '../output/build-log.ts'
import { table } from '../output/terminal.ts'

export async function explainConfig(
  ctx: CommandContext,
  parsed: Parsed,
  words: readonly string[],
): Promise<number> {
  const { terminal } = ctx
  const project = await openProject(ctx, 'user')
  const asked = {
    base: parsed.value('base'),
    image: imageOption(parsed),
    profile: parsed.value('profile'),
    ...devcontainerOptions(parsed),
  }
  const found = detectProject(project)
  const unread: string[] = []
  const choice = { ...asked, compose: composeOptions(parsed) }
  const compose = usedCompose({ directory: project.directory, tree: found.tree }, choice, (text) => {
    unread.push(text)
  })
  const isApproved = !compose || isFileGranted(ctx, project.directory, composeRequest(compose, found.tree))
  const composed = compose && isApproved ? composePlan(compose, found) : { detected: found }
  const planned = await planOnly(ctx, project, { ...choice, ...composed })
  const group = planned?.plan.devcontainer?.base.group
  const wanted = words[0]
  const rows = [
    ...(planned
      ? [
          ...explainPlan(planned.plan),
          ...explainVolumes(project, planned.plan.devcontainer?.volumes),
          ...explainEphemeral(ephemeralWishes(project.directory, planned.plan.devcontainer?.ephemeral)),
        ]
      : []),
    ...(compose ? explainCompose(compose) : []),
    ...(group ? explainCompose(group.compose) : []),
  ].filter(({ key }) => isCalled(key, wanted))
  const notes = [
    ...(planned?.plan.notes ?? []),
    ...unread,
    ...(compose && !isApproved
      ? [`the services do not run until \`agentpod policy approve\` approves their images and Dockerfiles`]
      : []),
    ...(compose ? unusedNotes(compose) : []),
  ]
  const refused = (planned?.plan.refused ?? []).filter(({ key }) => isCalled(key, wanted))
  if (parsed.has('json')) {
    const problems = refused.map(({ key, error: { message, hint } }) => ({ key, message, hint }))
    terminal.out(
      JSON.stringify({ choices: rows, notes, problems, workspace: planned?.plan.workspace ?? null }),
    )
    return failed(refused)
  }
  if (rows.length === 0) {
    terminal.say(
      wanted === undefined
        ? 'nothing was detected and there is no agentpod.toml: sandboxes use the base host as it is'
        : `no choice is named ${showHidden(wanted)}`,
    )
    return wanted === undefined ? 0 : 1
  }
  const lines = table(
    rows.map(({ key, value, rank, from }) => [key, value, `${evidenceText(from)} (${rank})`].map(showHidden)),
  )
  for (const [index, line] of lines.entries()) {
    terminal.out(line)
    const run = rows[index]?.run
    if (run !== undefined) terminal.out(terminal.dim(`    ${showHidden(run)}`))
    for (const { value, evidence, why } of rows[index]?.beat ?? [])
      terminal.out(
        terminal.dim(
          `    not ${showHidden(value)} (${showHidden(evidenceText(evidence))}): ${showHidden(why)}`,
        ),
      )
    const note = rows[index]?.note
    if (note) terminal.out(terminal.dim(`    ${showHidden(note)}`))
  }
  for (const note of notes) terminal.out(terminal.dim(`note: ${showHidden(note)}`))
  return failed(refused)
}

/** `dependencies` matches every step that installs dependencies, `test` every command of that name. */
function isCalled(key: string, wanted: string | undefined): boolean {
  if (wanted === undefined || key === wanted) return true
  const [word = key] = key.split(' in ', 1)
  return ['.', '/'].some((mark) => key.startsWith(wanted + mark) || word.endsWith(mark + wanted))
}

/** Everything is shown first; then a plan that cannot be built fails with the error of the build. */
function failed(refused: Plan['refused']): number {
  const [first] = refused
  if (first) throw first.error
  return 0
}

/** Prints a compose file for Docker that says what agentpod.toml says. */
export async function composeConfig(ctx: CommandContext, parsed: Parsed): Promise<number> {
  const project = await openProject(ctx, 'user')
  const planned = await planOnly(ctx, project, { profile: parsed.value('profile') })
  if (!planned || !detectProject(project).tree.has(PROJECT_FILE))
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'config.missing',
      message: `there is no ${PROJECT_FILE} here`,
      hint: '`agentpod init` writes one from what it detects',
    })
  failed(planned.plan.refused)
  const { volumes, ephemeral, environment } = readProjectFile(project.directory)?.data ?? {}
  const extras = { volumes, ephemeral, user: environment?.user }
  ctx.terminal.out(composeText(planned.plan, extras).trimEnd())
  return 0
}

/** Builds the environment and writes the installed versions to agentpod.lock. */
export async function lockConfig(ctx: CommandContext, parsed: Parsed): Promise<number> {
  const { terminal } = ctx
  const project = await openProject(ctx, 'user')
  // An older lock is ignored, because its versions are to be updated.
  const asked = {
    profile: parsed.value('profile'),
    isUnlocked: true,
    compose: composeOptions(parsed),
    ...devcontainerOptions(parsed),
  }
  refuseLockOfCompose(ctx, project, asked)
  const planned = await planOnly(ctx, project, asked)
  // Fails before anything is built.
  if (planned) lockText(planned.plan, { digest: '', apt: {}, npm: {}, pip: {} })
  const prepared = await planProject(ctx, project, asked)
  if (!prepared) {
    terminal.say('nothing to lock: nothing was detected and there is no agentpod.toml')
    return 1
  }
  const pod = await ctx.client()
  const { digest, base = '' } = await built(ctx, pod, prepared)
  const sandbox = await pod.create({
    environment: { ...environmentOf(prepared.plan, digest), services: [], start: undefined },
  })
  try {
    const found = await sandbox.exec('/bin/sh', { args: ['-c', ASK], user: 'root' }).wait()
    if (found.exitCode !== 0)
      throw new AgentPodError({
        code: 'internal',
        reason: 'lock.unread',
        message: `the installed packages could not be read: ${showHidden(found.stderr.slice(0, 300))}`,
      })
    const text = lockText(prepared.plan, { digest: base, ...readInstalled(found.stdout) })
    writeFileSync(join(project.directory, LOCK_FILE), text)
  } finally {
    await sandbox.destroy()
  }
  terminal.say(`wrote ${LOCK_FILE}; commit it`)
  return 0
}

/** The images of a compose file are the environment, and the file itself is the place to pin them. */
function refuseLockOfCompose(ctx: CommandContext, { directory, files }: Project, asked: ComposeChoice): void {
  const tree = treeOf({ directory, files })
  const say = (text: string): void => ctx.terminal.say(`note: ${showHidden(text)}`)
  const compose = usedCompose({ directory, tree }, asked, say)
  if (!compose) return
  const { file, line, name } = compose.service
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'lock.compose',
    message: `${placeText({ file, line })}: the environment is that of the service ${name}, which ${LOCK_FILE} cannot pin`,
    hint: 'write digests into the compose file and its Dockerfiles, as in image: NAME@sha256:...; --no-compose locks the detected environment',
  })
}

async function built(
  { terminal }: CommandContext,
  pod: AgentPod,
  prepared: PreparedPlan,
): ReturnType<typeof buildPlan> {
  using log = new BuildLog(terminal)
  try {
    return await buildPlan(pod, prepared, buildCallbacks(log))
  } catch (error) {
    log.failed(error)
    throw error
  }
}

const ASK = `set -e
if command -v dpkg-query >/dev/null; then dpkg-query -W -f 'apt \${Package} \${Version}\\n'; fi
for manifest in /opt/agentpod/tools/lib/node_modules/*/package.json /opt/agentpod/tools/lib/node_modules/@*/*/package.json; do
  [ ! -f "$manifest" ] || printf 'npm %s %s\\n' "$(sed -n 's/^ *"name": *"\\([^"]*\\)".*/\\1/p' "$manifest" | head -n 1)" "$(sed -n 's/^ *"version": *"\\([^"]*\\)".*/\\1/p' "$manifest" | head -n 1)"
done
[ -x /opt/agentpod/tools/python/bin/pip ] || exit 0
frozen=$(/opt/agentpod/tools/python/bin/pip freeze --disable-pip-version-check 2>/dev/null)
printf '%s\\n' "$frozen" | sed -n 's/^\\([A-Za-z0-9._-]*\\)==\\(.*\\)$/pip \\1 \\2/p'`

const LINE = /^(apt|npm|pip) ([@A-Za-z0-9][A-Za-z0-9@/+._-]{0,120}) ([A-Za-z0-9][A-Za-z0-9.+~:_-]{0,100})$/

function readInstalled(text: string): Record<'apt' | 'npm' | 'pip', Record<string, string>> {
  const found = {
    apt: new Map<string, string>(),
    npm: new Map<string, string>(),
    pip: new Map<string, string>(),
  }
  for (const line of text.split('\n')) {
    const [, kind, name = '', version = ''] = LINE.exec(line) ?? []
    if (kind === 'apt' || kind === 'npm' || kind === 'pip') found[kind].set(name, version)
  }
  return {
    apt: Object.fromEntries(found.apt),
    npm: Object.fromEntries(found.npm),
    pip: Object.fromEntries(found.pip),
  }
}
