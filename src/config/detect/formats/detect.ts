/** Reads the files of other platforms and agents. */
import { RANKS } from '../../evidence.ts'
import type { FileTree } from '../../file-tree.ts'
import { rankOfFile } from '../../source-rank.ts'
import { aptPackagesIn } from '../instructions/shell-lines.ts'
import { distinctPackages } from '../project-files/debian-packages.ts'
import { shortQuote } from '../project-files/parsed-file.ts'
import { readComposeFormat } from './compose.ts'
import { readCopilot } from './copilot.ts'
import { readCursor } from './cursor.ts'
import { readDevbox } from './devbox.ts'
import { readDevcontainerFormat } from './devcontainer.ts'
import { readE2b } from './e2b.ts'
import { readFly } from './fly.ts'
import type { FormatFile } from './format-file.ts'
import { readGitpod } from './gitpod.ts'
import { readHeroku } from './heroku.ts'
import { readMise } from './mise.ts'
import { readNixFiles } from './nix-files.ts'
import { readNixpacks } from './nixpacks.ts'
import { readRailpack } from './railpack.ts'
import { readRailway } from './railway.ts'
import { readReplit } from './replit.ts'
import { readVercel } from './vercel.ts'

type FormatReader = (tree: FileTree) => readonly FormatFile[]

/** Files for development first, then those for deployments: of one rank, the first goes before the others. */
const READERS: readonly FormatReader[] = [
  readCursor,
  readCopilot,
  readGitpod,
  readDevbox,
  readReplit,
  readNixFiles,
  readE2b,
  // Railway's own file overrides those of its builders.
  readRailway,
  readRailpack,
  readNixpacks,
  readHeroku,
  readVercel,
  readFly,
  readMise,
]

/** The strongest first. */
export function detectFormats(tree: FileTree): readonly FormatFile[] {
  const found = READERS.flatMap((read) => read(tree))
    .map(withAptPackages)
    .map(bounded)
  return found.toSorted((a, b) => RANKS.indexOf(a.rank) - RANKS.indexOf(b.rank))
}

/**
 * What one file says, for `init --from`. devcontainer.json and compose files are only read here: other parts
 * run them whole. `directory` is the absolute path of the project.
 */
export function formatsOf(tree: FileTree, file: string, directory: string): readonly FormatFile[] {
  const rank = rankOfFile(file)
  if (rank === 'devcontainer')
    return [bounded(withAptPackages(readDevcontainerFormat(tree, file, directory)))]
  if (rank === 'compose file') return [bounded(readComposeFormat(tree, file))]
  return detectFormats(tree).filter((one) => one.file === file)
}

const MOST_NOTES = 40

function bounded(format: FormatFile): FormatFile {
  const { file } = format
  const notes = [...new Set(format.notes)]
  if (notes.length <= MOST_NOTES) return { ...format, notes }
  const more = notes.length - MOST_NOTES
  return { ...format, notes: [...notes.slice(0, MOST_NOTES), `${file}: ${more} more parts are not used`] }
}

/** Debian's packages are installed before everything else, as root. */
function withAptPackages(format: FormatFile): FormatFile {
  const packages = format.setup.flatMap(({ run, evidence }) =>
    aptPackagesIn(run).map(({ name, said }) => ({ name, evidence: { ...evidence, said: shortQuote(said) } })),
  )
  return { ...format, packages: distinctPackages([...format.packages, ...packages]) }
}
