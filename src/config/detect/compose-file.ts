/** Compose files: which services a project starts beside itself. */
import { directoryOf, type FileTree, nameOf } from '../tree.ts'
import { isAside } from './aside.ts'
import { isTable, type Table, tableAt, textAt } from './reading.ts'
import { commandOf, environmentOf } from './service-accounts.ts'
import { readYaml } from './yaml-file.ts'

export interface ComposeService {
  readonly file: string
  readonly name: string
  /** Empty where it is built from the project. */
  readonly image: string
  readonly variables: Table
  readonly command: string
  readonly line: number | undefined
}

const NAME = /^(?:docker-)?compose(?:[.-][\w.-]{1,60})?\.ya?ml$/
const MOST_FILES = 20
const MOST_SERVICES = 200

export function composeServices(tree: FileTree): readonly ComposeService[] {
  return tree.files
    .filter((file) => NAME.test(nameOf(file)) && isOwn(directoryOf(file)))
    .toSorted((a, b) => a.split('/').length - b.split('/').length || (a < b ? -1 : 1))
    .slice(0, MOST_FILES)
    .flatMap((file) => {
      const yaml = readYaml(tree, file)
      return Object.entries(tableAt(yaml?.data, 'services'))
        .slice(0, MOST_SERVICES)
        .flatMap(([name, service]) =>
          isTable(service)
            ? [
                {
                  file,
                  name,
                  image: textAt(service, 'image') ?? '',
                  variables: environmentOf(service),
                  command: commandOf(service),
                  line: yaml?.lineAt(['services', name, 'image']),
                },
              ]
            : [],
        )
    })
}

function isOwn(directory: string): boolean {
  return directory === '.devcontainer' || !isAside(directory)
}
