"""Does the source bear out what a model wrote?"""
