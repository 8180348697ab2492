/**
 * Configurations that both commands read. Each is small and about one rule. `REGISTRY` stands for the
 * registry of the tests, which holds the Features below.
 */
import type { FeatureParts } from '../../support/made-feature.ts'

export interface Configuration {
  readonly name: string
  /** The devcontainer.json: an object, or text where its form matters. */
  readonly json: unknown
  /** Where it is; `.devcontainer/devcontainer.json` by default. */
  readonly path?: string
  /** Whether the path is named to the command. */
  readonly isChosen?: boolean
  readonly files?: Readonly<Record<string, string>>
  /** The label of the image. */
  readonly label?: unknown
  readonly env?: Readonly<Record<string, string>>
  /** Whether it is among the few of the ordinary tests. */
  readonly isQuick?: boolean
}

const IMAGE = 'made:1'
const COMPOSE = 'services:\n  app: { image: made:1 }\n  db: { image: made:1 }\n'

const feature = (id: string, more: object = {}): string =>
  JSON.stringify({ id, version: '1.0.0', name: id, ...more })
const folder = (id: string, more: object = {}): Record<string, string> => ({
  [`.devcontainer/${id}/devcontainer-feature.json`]: feature(id, more),
  [`.devcontainer/${id}/install.sh`]: 'exit 0\n',
})
const folders = (all: Readonly<Record<string, object>>): Record<string, string> =>
  Object.assign({}, ...Object.entries(all).map(([id, more]) => folder(id, more)))

/** In the registry, under `team/features`. */
export const PUBLISHED: readonly FeatureParts[] = [
  { id: 'alpha', metadata: { options: { version: { type: 'string', default: 'latest' } } } },
  { id: 'beta', metadata: { installsAfter: ['REGISTRY/team/features/gamma'] } },
  { id: 'gamma', metadata: { customizations: { vscode: { extensions: ['g'] } }, capAdd: ['SYS_PTRACE'] } },
  { id: 'delta', metadata: { dependsOn: { 'REGISTRY/team/features/alpha:1': { version: '2' } } } },
  { id: 'epsilon', metadata: { dependsOn: { 'REGISTRY/team/features/delta': {} }, postCreateCommand: 'e' } },
  {
    id: 'renamed',
    metadata: { legacyIds: ['earlier'], currentId: 'renamed', privileged: true, entrypoint: '/usr/bin/r' },
  },
  { id: 'earlier', metadata: { legacyIds: ['earlier'], currentId: 'renamed' } },
  { id: 'follower', metadata: { installsAfter: ['REGISTRY/team/features/earlier'] } },
]

const of = (id: string): string => `REGISTRY/team/features/${id}`

const PLACES: readonly Configuration[] = [
  { name: 'an image and nothing else, in the usual place', json: { image: IMAGE, name: 'x' }, isQuick: true },
  { name: 'the dotted file', path: '.devcontainer.json', json: { image: IMAGE, init: true } },
  {
    name: 'a folder of .devcontainer, by its path',
    path: '.devcontainer/python/devcontainer.json',
    isChosen: true,
    json: { image: IMAGE, name: '${localWorkspaceFolderBasename}', remoteUser: 'p' },
  },
  {
    name: 'comments and trailing commas',
    json: '// one\n{\n  /* two */ "image": "made:1",\n  "forwardPorts": [3000, 3001,], // three\n}\n',
    isQuick: true,
  },
  { name: 'a byte order mark', json: '\ufeff{"image": "made:1", "init": false}' },
  { name: 'lines that end as on Windows', json: '{\r\n  "image": "made:1",\r\n  "name": "w"\r\n}\r\n' },
]

const VARIABLES: readonly Configuration[] = [
  {
    name: 'variables of this machine, with and without defaults',
    env: { MADE_ONE: 'one', MADE_EMPTY: '' },
    json: {
      image: IMAGE,
      containerEnv: {
        A: '${localEnv:MADE_ONE}',
        B: '${localEnv:MADE_NONE}',
        C: '${localEnv:MADE_NONE:other}',
        D: '${localEnv:MADE_EMPTY:other}',
        E: '${env:MADE_ONE}-${env:MADE_NONE:x}',
      },
    },
    isQuick: true,
  },
  {
    name: 'a default with colons',
    json: {
      image: IMAGE,
      containerEnv: { A: '${localEnv:MADE_NONE:https://a:1/b}', B: '${localEnv:MADE_NONE:}' },
    },
  },
  {
    name: 'folders and their names',
    json: {
      image: IMAGE,
      containerEnv: {
        A: '${containerWorkspaceFolder}',
        B: '${containerWorkspaceFolderBasename}',
        C: '${localWorkspaceFolderBasename}',
        D: '${localWorkspaceFolder}',
      },
    },
  },
  {
    name: 'a workspace folder that has variables itself',
    json: {
      image: IMAGE,
      workspaceFolder: '/w/${localWorkspaceFolderBasename}/${localEnv:MADE_NONE:d}',
      workspaceMount: 'source=${localWorkspaceFolder},target=/w,type=bind',
      postCreateCommand: 'ls ${containerWorkspaceFolder} ${containerWorkspaceFolderBasename}',
    },
    isQuick: true,
  },
  {
    name: 'variables of the container, and its id, stay as they are',
    json: {
      image: IMAGE,
      remoteEnv: { PATH: '${containerEnv:PATH}:/x', HOME: '${containerEnv:HOME:/root}' },
      mounts: ['source=cache-${devcontainerId},target=/c,type=volume'],
    },
    isQuick: true,
  },
  {
    name: 'unknown variables, keys and dollars stay as they are',
    json: {
      image: IMAGE,
      containerEnv: {
        '${localEnv:HOME}': '$HOME ${HOME} ${unknown:a} ${} $${localEnv:MADE_NONE:b} ${localEnv:MADE',
      },
    },
  },
  {
    name: 'variables at every depth',
    env: { MADE_ONE: 'deep' },
    json: {
      image: IMAGE,
      customizations: { tool: { a: [{ b: '${localEnv:MADE_ONE}' }], n: 1, t: true, z: null } },
      portsAttributes: { 3000: { label: '${localEnv:MADE_ONE}' } },
    },
  },
  {
    name: 'variables in a build',
    env: { MADE_ONE: '13' },
    files: { '.devcontainer/Dockerfile': 'ARG V\nFROM made:$V\n' },
    json: { build: { dockerfile: 'Dockerfile', args: { V: '${localEnv:MADE_ONE}' } } },
  },
]

const SOURCES: readonly Configuration[] = [
  {
    name: 'a Dockerfile',
    files: { '.devcontainer/Dockerfile': 'FROM made:1\n' },
    json: { build: { dockerfile: 'Dockerfile', context: '..', target: undefined, cacheFrom: 'made:0' } },
    label: [{ remoteUser: 'labelled' }],
    isQuick: true,
  },
  {
    name: 'a Dockerfile of the project, with options',
    files: { Dockerfile: 'FROM made:1 AS one\nFROM one AS two\nRUN true\n' },
    json: {
      build: { dockerfile: '../Dockerfile', target: 'one', cacheFrom: ['a', 'b'], options: ['--pull'] },
      runArgs: ['--init'],
    },
    label: { containerUser: 'c' },
  },
  {
    name: 'the old place of the Dockerfile',
    files: { '.devcontainer/Dockerfile': 'FROM made:1\n' },
    json: { dockerFile: 'Dockerfile', context: '..' },
  },
  {
    name: 'arguments in FROM',
    files: { '.devcontainer/Dockerfile': 'ARG VARIANT=1\nFROM made:${VARIANT}\nUSER u\n' },
    json: { build: { dockerfile: 'Dockerfile', args: { VARIANT: '2' } }, postCreateCommand: 'x' },
    label: [{ userEnvProbe: 'none' }],
  },
  {
    name: 'a compose file',
    files: { '.devcontainer/compose.yml': COMPOSE },
    json: { dockerComposeFile: 'compose.yml', service: 'app', workspaceFolder: '/workspace' },
    isQuick: true,
  },
  {
    name: 'several compose files, and some services',
    files: { 'compose.yml': COMPOSE, '.devcontainer/compose.yml': COMPOSE },
    json: {
      dockerComposeFile: ['../compose.yml', 'compose.yml'],
      service: 'app',
      runServices: ['app', 'db'],
      workspaceFolder: '/workspaces/${localWorkspaceFolderBasename}',
      shutdownAction: 'stopCompose',
      overrideCommand: false,
      forwardPorts: ['db:5432', 3000],
      name: '${containerWorkspaceFolder}',
    },
  },
  {
    name: 'old settings of an editor',
    json: { image: IMAGE, extensions: ['a'], settings: { x: 1 }, devPort: 1 },
  },
  {
    name: 'old settings beside new ones',
    json: {
      image: IMAGE,
      extensions: ['b'],
      settings: { x: 1, y: 1 },
      customizations: { vscode: { extensions: ['a'], settings: { x: 2 } }, other: {} },
    },
  },
  {
    name: 'a schema, and secrets',
    json: { $schema: 'https://example.com/s', image: IMAGE, secrets: { A: { description: 'd' } } },
  },
]

const LIFECYCLE: readonly Configuration[] = [
  {
    name: 'every stage, as text',
    json: {
      image: IMAGE,
      initializeCommand: 'i',
      onCreateCommand: 'a',
      updateContentCommand: 'b',
      postCreateCommand: 'c',
      postStartCommand: 'd',
      postAttachCommand: 'e',
      waitFor: 'postCreateCommand',
    },
    isQuick: true,
  },
  { name: 'a stage as a list', json: { image: IMAGE, postCreateCommand: ['npm', 'ci', '--no-audit'] } },
  {
    name: 'a stage as named commands',
    json: {
      image: IMAGE,
      postCreateCommand: { one: 'npm ci', two: ['make', 'x'] },
      postStartCommand: { s: 't' },
    },
  },
  { name: 'an empty command', json: { image: IMAGE, postCreateCommand: '', postStartCommand: 'x' } },
  {
    name: 'commands of the label run first',
    json: { image: IMAGE, postCreateCommand: 'own', onCreateCommand: 'own' },
    label: [
      { postCreateCommand: 'one' },
      { id: 'f', postCreateCommand: { a: 'two' }, waitFor: 'onCreateCommand' },
    ],
  },
  {
    name: 'an early wait',
    json: { image: IMAGE, waitFor: 'initializeCommand', initializeCommand: ['true'] },
  },
]

const MERGING: readonly Configuration[] = [
  { name: 'a label that is one object', json: { image: IMAGE }, label: { remoteUser: 'one' }, isQuick: true },
  { name: 'a label that is an empty list', json: { image: IMAGE, name: 'x', init: false }, label: [] },
  {
    name: 'users: the last one counts',
    json: { image: IMAGE, remoteUser: 'own' },
    label: [{ remoteUser: 'a', containerUser: 'b' }, { containerUser: 'c' }],
  },
  {
    name: 'init and privileged: any counts',
    json: { image: IMAGE, init: false, privileged: false },
    label: [{ init: true }, { privileged: true }, { init: false }],
  },
  {
    name: 'capabilities and options are united',
    json: { image: IMAGE, capAdd: ['B', 'A'], securityOpt: ['x'] },
    label: [{ capAdd: ['A', 'C'], securityOpt: ['x', 'y'] }],
  },
  {
    name: 'variables by name',
    json: { image: IMAGE, remoteEnv: { A: '3', B: null }, containerEnv: { X: '2' } },
    label: [
      { remoteEnv: { A: '1', C: '1' }, containerEnv: { X: '1', Y: '1' } },
      { remoteEnv: { A: '2', B: '2' } },
    ],
  },
  {
    name: 'mounts by target',
    json: {
      image: IMAGE,
      mounts: [
        'source=b,target=/one,type=volume',
        { type: 'tmpfs', target: '/two' },
        'type=bind,src=/h,dst=/three',
      ],
    },
    label: [
      {
        mounts: [
          'source=a,target=/one,type=volume',
          { type: 'volume', source: 'z', target: '/three' },
          'src=k,dst=/k',
        ],
      },
    ],
  },
  {
    name: 'ports: a number and localhost are the same',
    json: { image: IMAGE, forwardPorts: [3000, 'db:5432'] },
    label: [{ forwardPorts: ['localhost:3000', 8080] }, { forwardPorts: [8080, 'db:5432', '127.0.0.1:1'] }],
  },
  {
    name: 'attributes of ports: a whole entry counts',
    json: {
      image: IMAGE,
      portsAttributes: { 3000: { label: 'own' }, '4000-4010': { onAutoForward: 'silent' } },
      otherPortsAttributes: { onAutoForward: 'ignore' },
    },
    label: [
      { portsAttributes: { 3000: { label: 'a', protocol: 'https' }, 5000: { label: 'b' } } },
      { otherPortsAttributes: { label: 'z' } },
    ],
  },
  {
    name: 'requirements: the largest counts',
    json: { image: IMAGE, hostRequirements: { cpus: 2, memory: '4gb', storage: '1024mb' } },
    label: [
      { hostRequirements: { cpus: 4, memory: '512mb' } },
      { hostRequirements: { storage: '1tb', gpu: 'optional' } },
    ],
  },
  { name: 'requirements: memory alone', json: { image: IMAGE, hostRequirements: { memory: '2048kb' } } },
  {
    name: 'requirements: a GPU or none',
    json: { image: IMAGE, hostRequirements: { gpu: false } },
    label: [{ hostRequirements: { gpu: true } }],
  },
  {
    name: 'requirements: parts of a GPU',
    json: { image: IMAGE, hostRequirements: { gpu: { cores: 100, memory: '8gb' } } },
    label: [{ hostRequirements: { gpu: { cores: 200 } } }, { hostRequirements: { gpu: 'optional' } }],
  },
  {
    name: 'the last of each, and false counts',
    json: { image: IMAGE, overrideCommand: false, updateRemoteUserUID: false, shutdownAction: 'none' },
    label: [
      {
        overrideCommand: true,
        updateRemoteUserUID: true,
        userEnvProbe: 'loginShell',
        shutdownAction: 'stopContainer',
      },
      { userEnvProbe: 'interactiveShell' },
    ],
  },
  {
    name: 'customizations are lists by tool',
    json: {
      image: IMAGE,
      customizations: { vscode: { extensions: ['own'] }, agentpod: { resources: { cpus: 2 } } },
    },
    label: [
      { customizations: { vscode: { extensions: ['a'] } } },
      { customizations: { jetbrains: { b: 1 } } },
    ],
  },
  {
    name: 'variables in the label are replaced',
    json: { image: IMAGE },
    label: [
      {
        remoteEnv: { A: '${containerWorkspaceFolder}', B: '${localEnv:MADE_NONE:d}', C: '${devcontainerId}' },
      },
    ],
  },
  {
    name: 'entry points of the label',
    json: { image: IMAGE },
    label: [{ entrypoint: '/a' }, { id: 'x', entrypoint: '/b' }],
  },
  {
    name: 'a label with a value of a wrong kind',
    json: { image: IMAGE, init: true },
    label: [{ remoteUser: 5, containerUser: 'c', unknown: 1 }],
  },
  {
    name: 'a label with comments, which is not JSON',
    json: { image: IMAGE, init: true },
    label: '[{"remoteUser": "u"} /* no */]',
  },
  { name: 'a label that is not JSON', json: { image: IMAGE, remoteUser: 'u' }, label: 'not json {' },
  {
    name: 'what is not merged stays',
    json: { image: IMAGE, runArgs: ['--name', 'x'], appPort: [8080, '9000:90'], name: 'n', features: {} },
    label: [{ remoteUser: 'u' }],
  },
]

const FEATURES: readonly Configuration[] = [
  { name: 'one Feature of the project', json: { image: IMAGE, features: { './a': {} } }, files: folder('a') },
  {
    name: 'Features sort by path',
    json: { image: IMAGE, features: { './c': {}, './a': {}, './b': 'x' } },
    files: folders({ a: {}, b: {}, c: {} }),
    isQuick: true,
  },
  {
    name: 'hard dependencies are installed first',
    json: { image: IMAGE, features: { './a': {} } },
    files: folders({ a: { dependsOn: { './z': { k: 'v' } } }, z: { dependsOn: { './m': {} } }, m: {} }),
  },
  {
    name: 'the same Feature with other options is installed twice',
    json: { image: IMAGE, features: { './a': {}, './z': { k: '1' } } },
    files: folders({
      a: { dependsOn: { './z': { k: '2' } } },
      z: { options: { k: { type: 'string', default: '' } } },
    }),
  },
  {
    name: 'soft dependencies, also on what is not installed',
    json: { image: IMAGE, features: { './a': {}, './b': {}, './c': {} } },
    files: folders({
      a: { installsAfter: ['./c', './nowhere'] },
      b: { installsAfter: ['./a'] },
      c: {},
      nowhere: {},
    }),
  },
  {
    name: 'soft dependencies do not go further',
    json: { image: IMAGE, features: { './a': {}, './c': {} } },
    files: folders({ a: { installsAfter: ['./b'] }, b: { installsAfter: ['./c'] }, c: {} }),
  },
  {
    name: 'an order that the file gives',
    json: {
      image: IMAGE,
      features: { './a': {}, './b': {}, './c': {}, './d': {} },
      overrideFeatureInstallOrder: ['./d', './b'],
    },
    files: folders({ a: {}, b: {}, c: {}, d: {} }),
  },
  {
    name: 'an order that dependencies do not allow',
    json: { image: IMAGE, features: { './a': {}, './b': {} }, overrideFeatureInstallOrder: ['./a', './b'] },
    files: folders({ a: { dependsOn: { './b': {} } }, b: { installsAfter: ['./c'] }, c: {} }),
  },
  {
    name: 'options: fewer sort first, then by name and value',
    json: { image: IMAGE, features: { './p': {}, './q': {} } },
    files: folders({
      p: { dependsOn: { './z': { a: '2', b: '1' } } },
      q: { dependsOn: { './z': { a: '1' } } },
      z: { options: { a: { type: 'string' }, b: { type: 'string' } } },
    }),
  },
  {
    name: 'text and booleans as options',
    json: { image: IMAGE, features: { './a': 'latest', './b': true, './c': { on: true, off: false } } },
    files: folders({
      a: { options: { version: { type: 'string', default: 'x' } } },
      b: { options: { version: { type: 'string', default: 'x' } } },
      c: { options: { on: { type: 'boolean', default: false } } },
    }),
  },
  {
    name: 'what Features add to the merged configuration',
    json: { image: IMAGE, features: { './a': {}, './b': {} }, postCreateCommand: 'own', capAdd: ['X'] },
    files: folders({
      a: {
        postCreateCommand: 'a ${containerWorkspaceFolder}',
        mounts: [{ type: 'volume', source: 'a-${devcontainerId}', target: '/a' }],
        capAdd: ['SYS_PTRACE'],
        securityOpt: ['seccomp=unconfined'],
        init: true,
        entrypoint: '/usr/local/share/a.sh',
        containerEnv: { A: '1' },
        customizations: { vscode: { extensions: ['a'] } },
      },
      b: { onCreateCommand: { x: 'y' }, privileged: true, extensions: ['old'], settings: { s: 1 } },
    }),
    label: [{ id: 'base', postCreateCommand: 'label' }],
    isQuick: true,
  },
  { name: 'a Feature of a registry', json: { image: IMAGE, features: { [of('alpha:1')]: '3' } } },
  {
    name: 'references in capitals',
    json: { image: IMAGE, features: { 'REGISTRY/Team/Features/Alpha': {} } },
  },
  {
    name: 'Features of a registry with dependencies',
    json: { image: IMAGE, features: { [of('epsilon')]: {}, [of('gamma:1')]: {}, [of('beta')]: {} } },
    isQuick: true,
  },
  {
    name: 'two tags of one digest are one Feature',
    json: { image: IMAGE, features: { [of('delta')]: {}, [of('alpha:1.2')]: { version: '2' } } },
  },
  {
    name: 'tags sort as text',
    json: {
      image: IMAGE,
      features: {
        [of('alpha:1.2.3')]: { version: 'a' },
        [of('alpha:1')]: { version: 'b' },
        [of('alpha')]: { version: 'c' },
      },
    },
  },
  {
    name: 'an earlier name of a Feature in installsAfter',
    json: { image: IMAGE, features: { [of('follower')]: {}, [of('renamed')]: {} } },
  },
  {
    name: 'Features of a registry and of the project',
    json: {
      image: IMAGE,
      features: { './z': {}, [of('alpha')]: {}, './a': {}, [of('gamma')]: {} },
      overrideFeatureInstallOrder: [of('gamma'), './z'],
    },
    files: folders({ a: {}, z: { installsAfter: [of('alpha')] } }),
  },
]

export const CONFIGURATIONS: readonly Configuration[] = [
  ...PLACES,
  ...VARIABLES,
  ...SOURCES,
  ...LIFECYCLE,
  ...MERGING,
  ...FEATURES,
]
