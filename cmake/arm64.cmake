# Cross compiler of Debian for ARM64 and a root with the libraries: cmake -DCMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake
# -DZABRA_ROOT=DIR. Programs run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZABRA_ROOT)
set(CMAKE_SYSROOT "${ZABRA_ROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${ZABRA_ROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${ZABRA_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${ZABRA_ROOT}/usr/share/pkgconfig")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L "${ZABRA_ROOT}")
