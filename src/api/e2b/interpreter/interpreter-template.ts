/**
 * The template `code-interpreter-v1`: kernels of Jupyter, and a small server in front of them that speaks
 * E2B's protocol. Built when it is first asked for.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { knownAccess, type PackagePresets, withAccess } from '../../../build/package-presets.ts'
import type { MadeTemplate } from '../../../core/build/template.ts'
import { DEFAULT_STEP_MS, type Step } from '../../../core/recipe.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'

export const INTERPRETER_TEMPLATE = 'code-interpreter-v1'
const PORT = 49_999
const HOME = '/opt/code-interpreter'
const READY_MS = 120_000

/** A server that was killed, as when there was no memory left, is started again. */
const SERVER = `trap 'kill $!; wait; exit 0' TERM
while :; do
  ${HOME}/venv/bin/python ${HOME}/server.py &
  wait $! && exit 0
  sleep 1
done`

/** Jupyter's kernels, its library that starts them, and packages for data and charts. */
const PACKAGES = ['jupyter_client', 'ipykernel>=7,<8', 'bash_kernel>=0.10', 'matplotlib', 'numpy', 'pandas']

export function interpreterTemplate(o: {
  readonly directory: string | undefined
  readonly presets: PackagePresets
}): Readonly<Record<string, () => Promise<MadeTemplate>>> {
  const { directory } = o
  if (directory === undefined) return {}
  return {
    [INTERPRETER_TEMPLATE]: async () => {
      const access = await knownAccess(o.presets)
      return {
        recipe: {
          base: { name: 'debian', kit: 'development' },
          steps: [withAccess(packagesStep(), access), filesStep(directory)],
        },
        environment: {
          variables: {},
          user: 'user',
          workdir: '',
          services: [
            {
              name: 'code-interpreter',
              run: SERVER,
              user: 'user',
              workdir: '/home/user',
              variables: {},
              ready: { port: PORT, timeoutMs: READY_MS },
              needsProject: false,
              stopSignal: 'SIGTERM',
              stopMs: 5000,
            },
          ],
        },
      }
    },
  }
}

function step(name: string, title: string, run: string): Step {
  return {
    name,
    title,
    run: `set -eu\n${run}`,
    user: 'root',
    workdir: '/',
    path: [],
    variables: { HOME: '/root', PIP_DISABLE_PIP_VERSION_CHECK: '1', PIP_ROOT_USER_ACTION: 'ignore' },
    network: [],
    timeoutMs: DEFAULT_STEP_MS,
  }
}

/** The user owns the packages, so that `pip install` works in the cells of a notebook. */
function packagesStep(): Step {
  return step(
    'packages',
    'Jupyter and packages for data',
    `python3 -m venv ${HOME}/venv
${HOME}/venv/bin/pip install --quiet --no-cache-dir ${PACKAGES.map(shellWord).join(' ')}
${HOME}/venv/bin/python -m compileall -q ${HOME}/venv || :
chown -R user: ${HOME}`,
  )
}

/** The files are part of the command, and so of the key of the layer. */
function filesStep(directory: string): Step {
  const names = readdirSync(directory).sort()
  const writes = names.map((name) => {
    const data = readFileSync(join(directory, name)).toString('base64')
    return `printf %s ${data} | base64 -d > ${HOME}/${shellWord(name)}`
  })
  return step('server', 'the code interpreter', [...writes, `sh ${HOME}/install.sh`].join('\n'))
}
