/* Joins the upvalue of a closure to itself. */
#include <stdio.h>
#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

static const char program[] =
    "local function holder(value)\n"
    "  return function() return value end\n"
    "end\n"
    "local first = holder({1, 2, 3})\n"
    "local second = holder({4, 5})\n"
    "debug.upvaluejoin(first, 1, good and second or first, 1)\n"
    "print(#first())\n";

int case_main(int good)
{
    lua_State *L = luaL_newstate();

    if (L == NULL)
        return 2;
    luaL_openlibs(L);
    lua_pushboolean(L, good);
    lua_setglobal(L, "good");
    if (luaL_loadstring(L, program) != 0 || lua_pcall(L, 0, 0, 0) != 0) {
        printf("%s\n", lua_tostring(L, -1));
        return 1;
    }
    lua_close(L);
    return 0;
}
