import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROJECT_FILE } from '../../config/config-files.ts'
import { initText, partsWithoutKey } from '../../config/plan/init.ts'
import { requireBuildable } from '../../config/plan/resolve/resolve.ts'
import { AgentPodError } from '../../core/error.ts'
import { detectFrom } from '../../workbench/environment/detect-project.ts'
import { planOnly } from '../../workbench/environment/plan-environment.ts'
import { openProject } from '../../workbench/project/open-project.ts'
import { imageOption } from '../args/options.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod init [options]',
  examples: [
    'agentpod init',
    'agentpod init --print      print it without writing',
    'agentpod init --base debian',
    'agentpod init --from .gitpod.yml   turn a file of another platform into agentpod.toml',
  ],
  options: {
    base: { value: 'BASE', help: 'use this base in the file' },
    image: { value: 'REF', help: 'use this container image in the file' },
    from: { value: 'FILE', help: 'use this file of another platform, and no other one' },
    print: { help: 'print the file instead of writing it' },
    force: { help: 'replace an existing file' },
  },
  words: { min: 0, max: 0 },
  async run(ctx, parsed) {
    const file = join(ctx.cwd, PROJECT_FILE)
    if (!parsed.has('print') && !parsed.has('force') && existsSync(file))
      throw new AgentPodError({
        code: 'already_exists',
        reason: 'file.exists',
        message: `${PROJECT_FILE} exists already`,
        hint: '`agentpod config explain` explains it; --force replaces it',
      })
    const project = await openProject(ctx, 'user')
    // The file is written from detection alone, without an older file.
    const files = project.files.filter((path) => path !== PROJECT_FILE && path !== 'agentpod.lock')
    const from = parsed.value('from')
    const read = from === undefined ? undefined : detectFrom({ ...project, files }, from)
    const planned = await planOnly(
      ctx,
      { ...project, files },
      {
        base: parsed.value('base'),
        image: imageOption(parsed),
        isUnlocked: true,
        isWritten: true,
        isFileIgnored: true,
        isWithoutDevcontainer: true,
        detected: read?.detected,
      },
    )
    const plan = planned && requireBuildable(planned.plan)
    const lost = [...(plan?.notes ?? []), ...partsWithoutKey(plan, read?.detected.formats ?? [])]
    const text = initText(project.name, plan, read && { file: read.file, notes: lost })
    if (parsed.has('print')) {
      ctx.terminal.stdout.write(text)
      return 0
    }
    writeFileSync(file, text, { flag: parsed.has('force') ? 'w' : 'wx' })
    ctx.terminal.say(`wrote ${PROJECT_FILE}; \`agentpod shell\` uses it`)
    return 0
  },
}
