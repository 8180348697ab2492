/** Reads the services in compose files. */
import { isObject, type JsonObject, objectAt } from '../../../util/untrusted-json.ts'
import { directoryOf, type FileTree } from '../../file-tree.ts'
import { isIgnored } from '../project-files/ignored-directories.ts'
import { textAt } from '../project-files/parsed-file.ts'
import { readYamlFile } from '../project-files/yaml-file.ts'
import { serviceCommand, serviceEnvironment } from './accounts.ts'

export interface FoundComposeService {
  readonly file: string
  readonly name: string
  /** Empty if it is built from the project. */
  readonly image: string
  readonly variables: JsonObject
  readonly command: string
  readonly line: number | undefined
}

const NAME = /^(?:docker-)?compose(?:[.-][\w.-]{1,60})?\.ya?ml$/
const MOST_FILES = 20
const MOST_SERVICES = 200

export function composeServices(tree: FileTree): readonly FoundComposeService[] {
  return tree
    .matching(NAME)
    .filter((file) => isOwn(directoryOf(file)))
    .toSorted((a, b) => a.split('/').length - b.split('/').length || (a < b ? -1 : 1))
    .slice(0, MOST_FILES)
    .flatMap((file) => {
      const yaml = readYamlFile(tree, file)
      return Object.entries(objectAt(yaml?.data, 'services'))
        .slice(0, MOST_SERVICES)
        .flatMap(([name, service]) =>
          isObject(service)
            ? [
                {
                  file,
                  name,
                  image: textAt(service, 'image') ?? '',
                  variables: serviceEnvironment(service),
                  command: serviceCommand(service),
                  line: yaml?.lineAt(['services', name, 'image']),
                },
              ]
            : [],
        )
    })
}

function isOwn(directory: string): boolean {
  return directory === '.devcontainer' || !isIgnored(directory)
}
