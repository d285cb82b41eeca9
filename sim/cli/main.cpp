#include "sim/cli/program.h"

int main(int argc, char** argv) { return kvsim::cli::run_program(argc, argv); }
