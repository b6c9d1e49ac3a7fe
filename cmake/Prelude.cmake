# Headers of the system that most sources begin with, parsed once for all of them: two thirds of a cold build went
# into the same headers over and over. None of ours is among them, or a change to it would rebuild everything.
#
# Not CMake's target_precompile_headers: with ccache what one clone of the tree has compiled is found by the next,
# and that needs a plain -include-pch (whose path ccache makes relative) and, beside the file, a sum that tells what
# was parsed and not where (CCACHE_PCH_EXTSUM, set by ./dev).

add_custom_target(berth_preludes) # all of them: what looks at a source as the compiler does needs them, too

# berth_prelude(NAME FLAGS...): makes build/.../prelude/NAME.pch of cmake/prelude/NAME.hpp, with the flags of our
# libraries and FLAGS.
function(berth_prelude name)
  set(header ${PROJECT_SOURCE_DIR}/cmake/prelude/${name}.hpp)
  set(pch ${PROJECT_BINARY_DIR}/prelude/${name}.pch)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/prelude)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  set(parse ${CMAKE_CXX_COMPILER} ${flags} ${CMAKE_CXX23_STANDARD_COMPILE_OPTION} -fPIC -fvisibility=hidden
    -fvisibility-inlines-hidden -D$<JOIN:$<TARGET_PROPERTY:berth_flags,INTERFACE_COMPILE_DEFINITIONS>,$<SEMICOLON>-D>
    $<TARGET_PROPERTY:berth_flags,INTERFACE_COMPILE_OPTIONS> ${ARGN} -x c++-header ${header})
  add_custom_command(OUTPUT ${pch} DEPENDS ${header}
    COMMAND ${parse} -E -P -o ${pch}.text
    COMMAND sh -c "sha256sum <\"$0\" >\"$1\" && rm \"$0\"" ${pch}.text ${pch}.sum
    COMMAND ${parse} -Xclang -fpch-instantiate-templates -MD -MT ${pch} -MF ${pch}.d -o ${pch}
    DEPFILE ${pch}.d
    COMMENT "Parsing the headers of prelude/${name}.pch" COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(berth_prelude_${name} DEPENDS ${pch})
  add_dependencies(berth_preludes berth_prelude_${name})
endfunction()

# What a source is compiled with that begins with the prelude.
function(berth_prelude_options name variable)
  set(${variable} -include-pch ${PROJECT_BINARY_DIR}/prelude/${name}.pch PARENT_SCOPE)
endfunction()

berth_prelude(plain)
berth_prelude(waiting)
berth_prelude(async)
berth_prelude(verbs)
