import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROJECT_FILE } from '../../config/files.ts'
import { initText } from '../../config/plan/init.ts'
import { buildable } from '../../config/plan/resolve.ts'
import { AgentPodError } from '../../core/error.ts'
import { imageOption } from '../args/options.ts'
import type { Command } from '../command.ts'
import { planOnly } from '../prepare-environment.ts'
import { openProject } from '../project.ts'

export const command: Command = {
  usage: 'agentpod init [options]',
  examples: [
    'agentpod init',
    'agentpod init --print      to look at it first',
    'agentpod init --base debian',
  ],
  options: {
    base: { value: 'BASE', help: 'write this base' },
    image: { value: 'REF', help: 'write this container image' },
    print: { help: 'print it and write nothing' },
    force: { help: 'replace the file that is there' },
  },
  words: { min: 0, max: 0 },
  async run(ctx, parsed) {
    const file = join(ctx.cwd, PROJECT_FILE)
    if (!parsed.has('print') && !parsed.has('force') && existsSync(file))
      throw new AgentPodError({
        code: 'already_exists',
        reason: 'file.exists',
        message: `there is an ${PROJECT_FILE} here`,
        hint: '`agentpod config explain` says what it comes to; --force replaces it',
      })
    const project = await openProject(ctx, 'user')
    // What is written is what detection says, whatever an older file has.
    const planned = await planOnly(
      ctx,
      {
        ...project,
        files: project.files.filter((path) => path !== PROJECT_FILE && path !== 'agentpod.lock'),
      },
      { base: parsed.value('base'), image: imageOption(parsed) },
    )
    const text = initText(project.name, planned && buildable(planned.plan))
    if (parsed.has('print')) {
      ctx.terminal.stdout.write(text)
      return 0
    }
    writeFileSync(file, text, { flag: parsed.has('force') ? 'w' : 'wx' })
    ctx.terminal.say(`wrote ${PROJECT_FILE}; \`agentpod shell\` starts with it`)
    return 0
  },
}
