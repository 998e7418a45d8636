#!/bin/sh
sed -i "s/k: z/k: edited/" "$1"
