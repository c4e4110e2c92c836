if(MUSTER_SANITIZE)
  # Checks are put in before the optimizer, which takes most of a build's time; stacks need lines only.
  # Warnings are errors where the code is compiled as it ships: here it looks other to the compiler.
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
  add_compile_options(-Wno-error -fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MUSTER_SANITIZE})
else()
  add_link_options(-Wl,--as-needed)
endif()
