{
  "variables": { "sanitize%": "" },
  "targets": [
    {
      "target_name": "broadsheet",
      "sources": [
        "<!@(node -p \"require('fs').readdirSync('native').filter(f=>f.endsWith('.cc')).map(f=>'native/'+f).sort().join(' ')\")"
      ],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": ["NAPI_VERSION=9", "NODE_ADDON_API_DISABLE_DEPRECATED", "NODE_ADDON_API_DISABLE_CPP_EXCEPTIONS", "_FILE_OFFSET_BITS=64"],
      "cflags!": ["-fno-exceptions"],
      "cflags_cc!": ["-std=gnu++17", "-std=gnu++14"],
      "cflags_cc": ["-std=c++20", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-cast-function-type"],
      "ldflags": ["-static-libstdc++", "-static-libgcc"],
      "conditions": [
        ["sanitize!=''", {
          "cflags_cc": ["-fsanitize=<(sanitize)", "-fno-sanitize=vptr", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-O1", "-g"],
          "ldflags!": ["-static-libstdc++", "-static-libgcc"],
          "ldflags": ["-fsanitize=<(sanitize)"]
        }]
      ]
    }
  ]
}
