import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectJava } from './detect.ts'

const WRAPPER = {
  gradlew: '',
  'gradle/wrapper/gradle-wrapper.jar': '',
  'gradle/wrapper/gradle-wrapper.properties':
    'distributionBase=GRADLE_USER_HOME\ndistributionUrl=https\\://gradle.example.com/distributions/gradle-7.6.1-bin.zip\n',
}

describe('Gradle', () => {
  testDetector(detectJava, [
    {
      name: 'a build with a wrapper is run by it, and its Gradle bounds the Java',
      files: {
        ...WRAPPER,
        'build.gradle':
          "plugins { id 'java' }\njava { toolchain { languageVersion = JavaLanguageVersion.of(17) } }\n",
        'settings.gradle': "rootProject.name = 'shop'\n",
      },
      finds: [
        {
          language: 'java',
          seen: 'settings.gradle:1',
          manager: 'gradle',
          tools: [],
          versions: ['17 manifest build.gradle:2', '<=19 range gradle/wrapper/gradle-wrapper.properties:2'],
          inputs: [
            'build.gradle',
            'gradle/wrapper/gradle-wrapper.jar',
            'gradle/wrapper/gradle-wrapper.properties',
            'gradlew',
            'settings.gradle',
          ],
          test: './gradlew test',
          build: './gradlew assemble',
          generated: ['build', '.gradle'],
          presets: ['maven'],
          notes: [/fetches Gradle 7\.6\.1 from gradle\.example\.com: allow that host/],
        },
      ],
    },
    {
      name: 'without a whole wrapper the Gradle that is installed is used',
      files: {
        'build.gradle.kts': 'kotlin { jvmToolchain(21) }\nplugins { kotlin("jvm") version "2.0.0" }\n',
        gradlew: '',
      },
      finds: [
        {
          language: 'kotlin',
          tools: ['gradle'],
          test: 'gradle test',
          versions: ['21 manifest build.gradle.kts:1'],
        },
      ],
    },
    {
      name: 'compatibility and targets are versions in all their forms',
      files: {
        'build.gradle':
          "sourceCompatibility = '1.8'\ntargetCompatibility = JavaVersion.VERSION_11\n// sourceCompatibility = 21\n/* jvmTarget = '20'\n*/\n",
      },
      finds: [{ versions: ['11 manifest build.gradle:2', '8 manifest build.gradle:1'] }],
    },
    {
      name: 'old names of versions are understood',
      files: { 'build.gradle': 'sourceCompatibility = JavaVersion.VERSION_1_8\n' },
      finds: [{ versions: ['8 manifest build.gradle:1'] }],
    },
    {
      name: 'catalogues and properties hold versions',
      files: {
        'build.gradle.kts': '',
        'gradle/libs.versions.toml': '[versions]\njava = "21"\njunit = "5.10"\n',
        'gradle.properties': 'org.gradle.jvmargs=-Xmx1g\njavaVersion=17\n',
      },
      finds: [{ versions: ['21 manifest gradle/libs.versions.toml:2', '17 manifest gradle.properties:2'] }],
    },
    {
      name: 'projects that settings include are members, and so are builds that it builds with',
      files: {
        'settings.gradle.kts':
          'pluginManagement {\n  includeBuild("build-logic")\n}\nrootProject.name = "x"\ninclude(":app", "libs:core")\ninclude(\n  "tools",\n  "moved"\n)\nproject(":moved").projectDir = file("elsewhere/moved")\ninclude("../../out")\n',
        'build.gradle.kts': '',
        'app/build.gradle.kts':
          'plugins { id("org.springframework.boot") }\ntasks.compileJava { options.release.set(17) }\n',
        'libs/core/build.gradle.kts': '',
        'elsewhere/moved/build.gradle': '',
        'build-logic/settings.gradle.kts': '',
        'build-logic/src/main/kotlin/conventions.gradle.kts': '',
        'buildSrc/src/main/java/A.java': '',
      },
      finds: [
        {
          members: [':app', ':libs:core', ':tools', ':moved'],
          versions: ['17 manifest app/build.gradle.kts:2'],
          inputs: [
            'app/build.gradle.kts',
            'build-logic/settings.gradle.kts',
            'build-logic/src/main/kotlin/conventions.gradle.kts',
            'build.gradle.kts',
            'buildSrc/src/main/java/A.java',
            'elsewhere/moved/build.gradle',
            'libs/core/build.gradle.kts',
            'settings.gradle.kts',
          ],
          generated: [
            'build',
            'app/build',
            'libs/core/build',
            'tools/build',
            'elsewhere/moved/build',
            '.gradle',
          ],
          dev: 'gradle bootRun',
          ports: [8080],
          notes: [/is outside the project/],
        },
      ],
    },
    {
      name: 'builds in several directories are several findings',
      files: {
        'a/build.gradle': '',
        'b/settings.gradle': "include 'x', 'y'",
        'b/x/build.gradle': '',
        'b/z/build.gradle': '',
      },
      finds: [{ directory: 'b', members: [':x', ':y'] }, { directory: 'a' }],
    },
    {
      name: 'an Android SDK is missing',
      files: { 'build.gradle': "plugins { id 'com.android.application' }" },
      finds: [{ notes: [/Android SDK/] }],
    },
    {
      name: 'where a directory has both, Maven is used and Gradle was beaten',
      files: { 'pom.xml': '<project><artifactId>a</artifactId></project>', 'build.gradle': '' },
      finds: [{ manager: 'maven', beaten: ['gradle'] }],
    },
  ])
})
