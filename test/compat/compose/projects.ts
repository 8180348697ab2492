/** Compose projects that Docker's own command and AgentPod read side by side. */

export interface ComposeProjectFiles {
  readonly name: string
  readonly files: Readonly<Record<string, string>>
  readonly profiles?: readonly string[]
}

export const PROJECTS: readonly ComposeProjectFiles[] = [
  {
    name: 'interpolation with defaults, alternatives, nesting and dollars',
    files: {
      '.env':
        'A=one\nEMPTY=\nQUOTED="two words" # a comment\nSINGLE=\'as $A is\'\nexport SAID=yes\nREF=${A}-more\n',
      'compose.yaml': `services:
  web:
    image: web:\${A}
    environment:
      BARE: $A
      DEFAULT: \${NONE:-fallback}
      DEFAULT_UNSET: \${EMPTY-unset}
      DEFAULT_EMPTY: \${EMPTY:-empty}
      INSTEAD: \${A:+instead}
      INSTEAD_NONE: \${NONE+instead}
      NESTED: \${NONE:-\${ALSO:-\${A}}}
      DOLLAR: a$$b $\${A}
      QUOTED: \${QUOTED}
      SINGLE: \${SINGLE}
      SAID: \${SAID}
      REF: \${REF}
      REQUIRED: \${A:?must be set}
`,
    },
  },
  {
    name: 'anchors, aliases and merge keys',
    files: {
      'compose.yaml': `x-common: &common
  image: app:1
  environment: &env { A: "1", B: "2" }
  working_dir: /srv
services:
  one:
    <<: *common
    command: run one
  two:
    <<: *common
    environment:
      <<: *env
      B: "3"
  three:
    <<: [*common, { user: "1000" }]
    image: app:2
`,
    },
  },
  {
    name: 'short and long ports',
    files: {
      'compose.yaml': `services:
  web:
    image: w
    ports:
      - "80"
      - "8080:81"
      - "127.0.0.1:8443:443"
      - "9000-9001:9000-9001"
      - "6060:6060/tcp"
      - { target: 90, published: "9090", protocol: tcp }
      - { target: 91 }
    expose: ["3000", 4000]
`,
    },
  },
  {
    name: 'short and long volumes',
    files: {
      'compose.yaml': `services:
  web:
    image: w
    volumes:
      - data:/data
      - data:/again:ro
      - ./src:/src
      - .:/app:cached
      - /anonymous
      - { type: volume, source: data, target: /long, read_only: true }
      - { type: bind, source: ./conf, target: /conf, read_only: true }
      - { type: tmpfs, target: /scratch, tmpfs: { size: 64mb } }
    tmpfs: [/run/quick]
volumes: { data: }
`,
      'src/a': '',
      'conf/a': '',
    },
  },
  {
    name: 'commands and entrypoints as text and as lists',
    files: {
      'compose.yaml': `services:
  a: { image: i, command: 'echo "two words" it\\''s one\\ word ""' }
  b: { image: i, command: ["echo", "two words"] }
  c: { image: i, entrypoint: sh -c, command: ["a && b"] }
  d: { image: i, entrypoint: ["/e", "x"] }
  e: { image: i, command: [], entrypoint: [] }
  f: { image: i, command: "" }
  g: { image: i, command: "echo $$HOME # not a comment" }
`,
    },
  },
  {
    name: 'environment as a list and as a table, with values of every kind',
    files: {
      '.env': 'FROM_ENV=there\n',
      'compose.yaml': `services:
  list: { image: i, environment: ["A=1", "B=x=y", "FROM_ENV", "EMPTY="] }
  table:
    image: i
    environment: { NUMBER: 10, FLOAT: 1.50, YES: "true", HEX: 0x1F, DATE: 2020-01-02, NULLED: , TEXT: "  spaces  " }
`,
    },
  },
  {
    name: 'files of variables, in their order',
    files: {
      'one.env': '# a comment\nA=1\nB=one\n\nC="quoted # no comment"\nD=${A}2\nE=\'single $A\'\n',
      'more/two.env': 'B=two\nF=a b  \nexport G=said\n',
      'compose.yaml': `services:
  web:
    image: i
    env_file: [one.env, more/two.env]
    environment: { A: own }
  one: { image: i, env_file: one.env }
  long:
    image: i
    env_file: [{ path: one.env, required: true }, { path: none.env, required: false }]
`,
    },
  },
  {
    name: 'profiles that are chosen',
    profiles: ['debug'],
    files: {
      'compose.yaml': `services:
  web: { image: i }
  tool: { image: i, profiles: [debug, test] }
  other: { image: i, profiles: [test] }
`,
    },
  },
  {
    name: 'an override file',
    files: {
      'compose.yaml': `services:
  web:
    image: a
    command: one
    environment: { A: "1", B: "1" }
    ports: ["80:80"]
    volumes: ["data:/data", "./src:/src"]
    depends_on: [db]
    labels: { x: y }
  db: { image: d }
volumes: { data: }
`,
      'compose.override.yaml': `services:
  web:
    image: b
    command: ["two", "words"]
    environment: ["B=2", "C=3"]
    ports: ["81:81"]
    volumes: ["other:/data", "./src:/src:ro", "more:/more"]
    depends_on: { cache: { condition: service_started } }
  cache: { image: c }
volumes: { other: , more: }
`,
      'src/a': '',
    },
  },
  {
    name: 'dependencies and health checks',
    files: {
      'compose.yaml': `services:
  web:
    image: w
    depends_on:
      db: { condition: service_healthy, restart: true }
      setup: { condition: service_completed_successfully }
      maybe: { condition: service_started, required: false }
  db:
    image: d
    healthcheck: { test: ["CMD", "pg_isready", "-U", "me"], interval: 1m30s, timeout: 10s, retries: 3, start_period: 5s }
  setup: { image: s, healthcheck: { test: curl -f http://localhost/ } }
  maybe: { image: m, healthcheck: { test: [NONE] } }
  list: { image: l, depends_on: [db, setup], healthcheck: { test: ["CMD-SHELL", "a || b"] } }
`,
    },
  },
  {
    name: 'builds',
    files: {
      'compose.yaml': `services:
  short: { build: ./app }
  long: { build: { context: ., dockerfile: docker/Dockerfile, target: dev, args: { A: 1, B: "two" } } }
  list: { build: { context: app, args: ["A=1", "B=2"] }, image: named }
`,
      'app/Dockerfile': 'FROM scratch\n',
      'docker/Dockerfile': 'FROM scratch\n',
    },
  },
  {
    name: 'limits, users and the rest of a service',
    files: {
      'compose.yaml': `name: shop
services:
  old: { image: i, mem_limit: 1g, cpus: 0.5, pids_limit: 50, user: "1000:1000", working_dir: /w, stop_signal: SIGINT }
  new:
    image: i
    deploy: { resources: { limits: { cpus: "1.5", memory: 512M, pids: 10 } } }
    stop_grace_period: 1m
    hostname: named
    networks: { default: { aliases: [other, more] } }
`,
    },
  },
  {
    name: 'text in blocks, and odd scalars',
    files: {
      'compose.yaml': `services:
  web:
    image: "i"
    command:
      - sh
      - -c
      - |
        echo one
        echo two
    environment:
      FOLDED: >-
        a
        b
      OCTAL: 0755
      ON: on
      TILDE: "~"
      UNICODE: "\\u00e9"
      COLON: "a: b"
`,
    },
  },
]
