import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { detectJava } from './detect.ts'

const pom = (inner: string): string => `<?xml version="1.0"?>\n<project>\n${inner}\n</project>\n`
const named = (name: string, rest = ''): string => pom(`<artifactId>${name}</artifactId>\n${rest}`)
const properties = (inner: string): string => `<properties>${inner}</properties>`
/** As poms refer to properties. */
const of = (name: string): string => `\${${name}}`
const plugin = (name: string, inner = ''): string =>
  `<build><plugins><plugin><artifactId>${name}</artifactId>${inner}</plugin></plugins></build>`

describe('Maven', () => {
  testDetector(detectJava, [
    { name: 'nothing is found where there is no Java', files: { 'README.md': '' }, finds: [] },
    {
      name: 'a project is what its pom says',
      files: {
        'pom.xml': named('shop', properties('<maven.compiler.release>21</maven.compiler.release>')),
        '.mvn/maven.config': '-T1',
        '.mvn/wrapper/maven-wrapper.properties':
          'distributionUrl=https\\://example.com/apache-maven-3.9.6-bin.zip\n',
        mvnw: '',
      },
      finds: [
        {
          language: 'java',
          seen: 'pom.xml:3',
          versions: ['21 manifest pom.xml:4'],
          manager: 'maven',
          tools: ['maven'],
          inputs: ['pom.xml', '.mvn/maven.config'],
          test: 'mvn -B test',
          build: 'mvn -B -DskipTests package',
          dev: undefined,
          lint: undefined,
          generated: ['target'],
          presets: ['maven'],
          members: undefined,
          notes: [/mvnw would fetch Maven 3\.9\.6: the installed Maven is used/],
        },
      ],
    },
    {
      name: '1.8 is 8, and of several the highest comes first',
      files: {
        'pom.xml': named(
          'a',
          properties('\n<maven.compiler.source>1.8</maven.compiler.source>\n<java.version>17</java.version>'),
        ),
      },
      finds: [{ versions: ['17 manifest pom.xml:6', '8 manifest pom.xml:5'] }],
    },
    {
      name: 'references are followed within the pom',
      files: {
        'pom.xml': named(
          'a',
          properties(`<jdk>11</jdk><maven.compiler.target>${of('jdk')}</maven.compiler.target>`),
        ),
      },
      finds: [{ versions: ['11 manifest pom.xml:4'] }],
    },
    {
      name: 'references are followed into parents that lie in the project',
      files: {
        'parent/pom.xml': named('base', properties('<level>17</level>')),
        'app/pom.xml': named(
          'app',
          `<parent><artifactId>base</artifactId><relativePath>../parent</relativePath></parent>${plugin('maven-compiler-plugin', `<configuration><release>${of('level')}</release></configuration>`)}`,
        ),
      },
      finds: [
        {
          directory: 'app',
          versions: ['17 manifest app/pom.xml:4'],
          inputs: ['app/pom.xml', 'parent/pom.xml'],
        },
        { directory: 'parent' },
      ],
    },
    {
      name: 'a file in the place of a parent that is another project is not the parent',
      files: {
        'pom.xml': named('other', properties('<level>17</level>')),
        'app/pom.xml': named(
          'app',
          `<parent><artifactId>base</artifactId></parent>${properties(`<java.version>${of('level')}</java.version>`)}`,
        ),
      },
      finds: [{ directory: '' }, { directory: 'app', versions: [], inputs: ['app/pom.xml'] }],
    },
    {
      name: 'references in a circle, and parents in a circle, lead to nothing',
      files: {
        'a/pom.xml': named(
          'a',
          `<parent><artifactId>b</artifactId><relativePath>../b</relativePath></parent>${properties(`<java.version>${of('x')}</java.version><x>${of('y')}</x><y>${of('x')}</y>`)}`,
        ),
        'b/pom.xml': named(
          'b',
          '<parent><artifactId>a</artifactId><relativePath>../a</relativePath></parent>',
        ),
      },
      finds: [{ directory: 'a', versions: [] }, { directory: 'b' }],
    },
    {
      name: 'references that double each other lead to nothing',
      files: {
        'pom.xml': named(
          'a',
          properties(
            `<java.version>\${a0}</java.version>${Array.from({ length: 40 }, (_, n) => `<a${n}>\${a${n + 1}}\${a${n + 1}}</a${n}>`).join('')}`,
          ),
        ),
      },
      finds: [{ versions: [] }],
    },
    {
      name: 'a toolchain, the enforcer, and files beside the pom speak as well',
      files: {
        'pom.xml': named(
          'a',
          `<build><plugins>
<plugin><artifactId>maven-toolchains-plugin</artifactId><configuration><toolchains><jdk><version>21</version></jdk></toolchains></configuration></plugin>
<plugin><artifactId>maven-enforcer-plugin</artifactId><configuration><rules><requireJavaVersion><version>[17,)</version></requireJavaVersion></rules></configuration></plugin>
</plugins></build>`,
        ),
        '.java-version': 'temurin-21.0.1\n',
        '.sdkmanrc': '# sdk\njava=21.0.2-tem\n',
        'system.properties': 'java.runtime.version=17\r\n',
        '.tool-versions': 'java temurin-20.0.1\n',
      },
      finds: [
        {
          versions: [
            '21.0.1 version file .java-version:1',
            '21.0.2 version file .sdkmanrc:2',
            '17 version file system.properties:1',
            '20.0.1 version file .tool-versions:1',
            '21 manifest pom.xml:5',
            '>=17 range pom.xml:6',
          ],
        },
      ],
    },
    {
      name: 'a reactor is one finding, with the modules of its modules',
      files: {
        'pom.xml': named(
          'root',
          '<packaging>pom</packaging><modules><module>core</module><module>apps</module></modules>',
        ),
        'core/pom.xml': named('core', properties('<java.version>11</java.version>')),
        'apps/pom.xml': named('apps', '<packaging>pom</packaging><modules><module>web</module></modules>'),
        'apps/web/pom.xml': named('web', plugin('spring-boot-maven-plugin')),
      },
      finds: [
        {
          members: ['core', 'apps', 'web'],
          inputs: ['pom.xml', 'core/pom.xml', 'apps/pom.xml', 'apps/web/pom.xml'],
          versions: ['11 manifest core/pom.xml:4'],
          generated: ['target', 'core/target', 'apps/target', 'apps/web/target'],
          dev: 'mvn -B -q -DskipTests install && mvn -B -pl apps/web spring-boot:run',
          ports: [8080],
        },
      ],
    },
    {
      name: 'a reactor beside its modules is found after them and takes them',
      files: {
        'core/pom.xml': named('core'),
        'whole/pom.xml': named(
          'whole',
          '<packaging>pom</packaging><modules><module>../core</module></modules>',
        ),
      },
      finds: [{ directory: 'whole', members: ['core'], generated: ['whole/target', 'core/target'] }],
    },
    {
      name: 'modules outside of the project, and modules in a circle, are left out',
      files: {
        'pom.xml': named(
          'root',
          '<modules><module>../../etc</module><module>/etc</module><module>a</module></modules>',
        ),
        'a/pom.xml': named('a', '<modules><module>..</module></modules>'),
      },
      finds: [{ members: ['a'], notes: [/module outside the project: \.\.\/\.\.\/etc/] }],
    },
    {
      name: 'a server is run, and started from its archive',
      files: { 'pom.xml': named('shop', `<version>1.2</version>${plugin('spring-boot-maven-plugin')}`) },
      finds: [
        {
          dev: 'mvn -B spring-boot:run',
          start: 'mvn -B -DskipTests package && java -jar target/shop-1.2.jar',
          ports: [8080],
        },
      ],
    },
    {
      name: 'a checker that is configured is the linter',
      files: { 'pom.xml': named('a', plugin('maven-checkstyle-plugin')) },
      finds: [{ lint: 'mvn -B checkstyle:check' }],
    },
    {
      name: 'Kotlin is told by its plugin, or by its sources',
      files: {
        'a/pom.xml': named('a', plugin('kotlin-maven-plugin')),
        'b/pom.xml': named('b'),
        'b/src/main/kotlin/B.kt': '',
        'c/pom.xml': named('c'),
      },
      finds: [
        { directory: 'a', language: 'kotlin' },
        { directory: 'b', language: 'kotlin' },
        { directory: 'c', language: 'java' },
      ],
    },
    {
      name: 'a pom that ends too early is read as far as it goes',
      files: { 'pom.xml': '<project><artifactId>x' },
      finds: [{ test: 'mvn -B test' }],
    },
    {
      name: 'what is no pom is a note',
      files: { 'pom.xml': 'hello <' },
      finds: [{ notes: [/pom\.xml is malformed/] }],
    },
    {
      name: 'entities stand for nothing',
      files: {
        'pom.xml': `<!DOCTYPE p [<!ENTITY a "1"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY x SYSTEM "file:///etc/passwd">]>\n${named('a', properties('<java.version>&b;</java.version><jdk.version>&x;</jdk.version>'))}`,
      },
      finds: [{ versions: [] }],
    },
  ])

  const scratch = mkdtempSync(join(tmpdir(), 'agentpod-maven-'))
  after(() => rmSync(scratch, { recursive: true }))

  test('the setup puts a class and a test into every module and leaves nothing behind, whatever Maven says', () => {
    const files = {
      'pom.xml': named('root', "<packaging>pom</packaging><modules><module>it's</module></modules>"),
      "it's/pom.xml": named(
        'a',
        `<build><testSourceDirectory>${of('project.basedir')}/src/test/kotlin</testSourceDirectory></build>`,
      ),
    }
    const setup = detectJava(memoryTree(files))[0]?.commands.setup?.run ?? ''
    mkdirSync(join(scratch, "it's"))
    mkdirSync(join(scratch, 'bin'))
    for (const [path, text] of Object.entries(files)) writeFileSync(join(scratch, path), text)
    // A Maven that looks at what is there and refuses.
    writeFileSync(
      join(scratch, 'bin/mvn'),
      '#!/bin/sh\nfind . -name "*.java" | sort >> seen\nmkdir -p target "it\'s/target"\nexit 3\n',
      {
        mode: 0o755,
      },
    )
    const run = (): string =>
      execFileSync('/bin/sh', ['-c', setup], {
        cwd: scratch,
        env: { PATH: `${join(scratch, 'bin')}:/usr/bin:/bin` },
        encoding: 'utf8',
      })
    assert.throws(run, { status: 3 })
    assert.deepEqual(readdirSync(scratch).toSorted(), ['bin', "it's", 'pom.xml', 'seen'])
    assert.deepEqual(readdirSync(join(scratch, "it's")), ['pom.xml'])
    const seen = execFileSync('/bin/sh', ['-c', 'sort -u seen'], { cwd: scratch, encoding: 'utf8' })
    assert.deepEqual(seen.trim().split('\n'), [
      "./it's/src/main/java/agentpodstub/Stub.java",
      "./it's/src/test/kotlin/agentpodstub/StubTest.java",
    ])
  })
})
