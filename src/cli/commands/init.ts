import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROJECT_FILE } from '../../config/config-files.ts'
import { initText } from '../../config/plan/init.ts'
import { requireBuildable } from '../../config/plan/resolve/resolve.ts'
import { AgentPodError } from '../../core/error.ts'
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
  ],
  options: {
    base: { value: 'BASE', help: 'use this base in the file' },
    image: { value: 'REF', help: 'use this container image in the file' },
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
    const planned = await planOnly(
      ctx,
      {
        ...project,
        files: project.files.filter((path) => path !== PROJECT_FILE && path !== 'agentpod.lock'),
      },
      { base: parsed.value('base'), image: imageOption(parsed) },
    )
    const text = initText(project.name, planned && requireBuildable(planned.plan))
    if (parsed.has('print')) {
      ctx.terminal.stdout.write(text)
      return 0
    }
    writeFileSync(file, text, { flag: parsed.has('force') ? 'w' : 'wx' })
    ctx.terminal.say(`wrote ${PROJECT_FILE}; \`agentpod shell\` uses it`)
    return 0
  },
}
